"""Errands: one at a time of each name, once more when asked for meanwhile, and not at all costs."""

from __future__ import annotations

import asyncio

from holdfast.errors import Unavailable
from holdfast.runtime.background import BackgroundTasks
from holdfast.runtime.simulated import VirtualTimeLoop


class Errand:
    """Takes a second, and counts."""

    def __init__(self, *, fails: bool = False) -> None:
        self.begun = 0
        self.ended = 0
        self._fails = fails

    async def __call__(self) -> None:
        self.begun += 1
        await asyncio.sleep(1)
        self.ended += 1
        if self._fails:
            raise Unavailable


def test_asked_for_again_while_it_runs_it_runs_once_more() -> None:
    async def body() -> None:
        background, errand = BackgroundTasks("test"), Errand()
        background.start("it", errand)
        await asyncio.sleep(0.5)
        for _ in range(3):
            background.start("it", errand)
        assert errand.begun == 1
        await asyncio.sleep(5)
        assert (errand.begun, errand.ended) == (2, 2)
        background.start("it", errand)
        await asyncio.sleep(5)
        assert errand.ended == 3

    VirtualTimeLoop.run(body())


def test_one_that_fails_is_left_to_whoever_starts_it_next() -> None:
    """Otherwise it would be tried without a pause for as long as it fails."""

    async def body() -> None:
        background, errand = BackgroundTasks("test"), Errand(fails=True)
        background.start("it", errand)
        await asyncio.sleep(0.5)
        background.start("it", errand)
        await asyncio.sleep(5)
        assert errand.ended == 1
        background.start("it", errand)
        await asyncio.sleep(5)
        assert errand.ended == 2

    VirtualTimeLoop.run(body())


def test_errands_of_different_names_run_side_by_side() -> None:
    async def body() -> None:
        background, errand = BackgroundTasks("test"), Errand()
        background.start("one", errand)
        background.start("other", errand)
        await asyncio.sleep(0.5)
        assert errand.begun == 2
        await asyncio.sleep(1)

    VirtualTimeLoop.run(body())


def test_closing_ends_those_that_run() -> None:
    async def body() -> None:
        background, errand = BackgroundTasks("test"), Errand()
        background.start("it", errand)
        await asyncio.sleep(0.5)
        await background.close()
        await asyncio.sleep(5)
        assert (errand.begun, errand.ended) == (1, 0)

    VirtualTimeLoop.run(body())
