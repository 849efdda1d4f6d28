"""Calls that travel together: those that ride along, and those an actor takes while its call is still open."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import InvalidRequest, SaveFailed
from holdfast.runtime import gather
from holdfast.runtime.gather import Gatherer, attend
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import VirtualTimeLoop

ECHO = "Echo"


class Echo:
    """A host of one actor in this process: each turn takes a second, and each call is open for as long as it likes."""

    def __init__(self) -> None:
        self.turns: list[list[str]] = []
        self.calls = 0
        self.breaks_off = False
        self.fails = False

    async def invoke_method(self, actor_type: str, actor_id: str, method: str, data: bytes) -> bytes:
        assert (actor_type, actor_id, method) == (ECHO, "e", "Batch")
        self.calls += 1
        answer = await attend(ECHO, "e", load(data), self._turn)
        if self.breaks_off:
            raise SaveFailed("The connection broke.")
        return dump(answer)

    async def _turn(self, calls: list[tuple[str, Any]]) -> dict[str, Any]:
        self.turns.append([method for method, _ in calls])
        await asyncio.sleep(1)
        if self.fails:
            raise SaveFailed
        return {"replies": [{"method": method, "data": data} for method, data in calls]}


def _play(body: Any) -> None:
    async def run() -> None:
        echo = Echo()
        await body(echo, Gatherer(echo, ECHO))  # type: ignore[arg-type]

    VirtualTimeLoop.run(run())


def test_what_comes_while_a_call_is_open_needs_no_other() -> None:
    async def body(echo: Echo, gatherer: Gatherer) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        first = asyncio.create_task(gatherer.call("e", "a", dump(1)))
        await asyncio.sleep(0.5)
        second = asyncio.create_task(gatherer.call("e", "b", dump(2)))
        assert await first == {"method": "a", "data": 1}
        # Answered when its turn was over, not when the call was.
        assert clock() - began == pytest.approx(1)
        assert await second == {"method": "b", "data": 2}
        assert (echo.turns, echo.calls) == ([["a"], ["b"]], 1)

    _play(body)


def test_an_actor_is_not_held_for_long() -> None:
    async def body(echo: Echo, gatherer: Gatherer) -> None:
        for number in range(5):
            await gatherer.call("e", str(number))
        assert len(echo.turns) == 5
        # A turn takes longer than a visit may.
        assert echo.calls > 1
        await asyncio.sleep(60)
        assert gatherer._waiting == {}
        assert gather._visits == {}

    _play(body)


def test_a_rider_goes_with_others_and_never_alone() -> None:
    async def body(echo: Echo, gatherer: Gatherer) -> None:
        riding = gatherer.ride("e", "pop", dump(None))
        await asyncio.sleep(60)
        assert (echo.turns, riding.done()) == ([], False)
        await gatherer.call("e", "push")
        assert await riding == {"method": "pop", "data": None}
        assert echo.turns == [["push", "pop"]]
        assert not gatherer.back("e")
        gatherer.ride("e", "pop", dump(None))
        assert gatherer.back("e")
        await gatherer.call("e", "push")
        assert echo.turns[-1] == ["push"]

    _play(body)


def test_whoever_waits_in_a_call_that_breaks_off_hears_of_it() -> None:
    async def body(echo: Echo, gatherer: Gatherer) -> None:
        echo.fails = True
        for _ in range(2):
            with pytest.raises(SaveFailed):
                await gatherer.call("e", "a")
        echo.fails = False
        echo.breaks_off = True
        # The actor has answered, whatever becomes of the call.
        assert await gatherer.call("e", "b") == {"method": "b", "data": None}
        echo.breaks_off = False
        assert await gatherer.call("e", "c") == {"method": "c", "data": None}

    _play(body)


def test_nobody_answers_for_the_calls_of_others() -> None:
    async def body(echo: Echo, gatherer: Gatherer) -> None:
        async def forged(calls: list[tuple[str, Any]]) -> dict[str, Any]:
            return {"replies": ["forged" for _ in calls]}

        asked = asyncio.create_task(gatherer.call("e", "a"))
        await asyncio.sleep(0.5)
        [visit] = gather._visits
        calls = {"calls": [{"method": "a", "data": None}], "visit": visit}
        assert await attend(ECHO, "another", calls, forged) == {"replies": ["forged"]}
        assert await asked == {"method": "a", "data": None}
        for wrong in (None, [], {}, {"calls": 1}, {"calls": [1]}):
            with pytest.raises(InvalidRequest):
                await attend(ECHO, "e", wrong, forged)

    _play(body)
