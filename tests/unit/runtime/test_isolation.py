"""A call that breaks the turn it shares with others fails alone."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import HoldfastError, SaveFailed, StorageBroken, TooLarge
from holdfast.runtime.isolation import isolated


class Adder:
    """An actor whose turns add numbers: all those of a turn, or none."""

    def __init__(self, *, saves_first: bool = False) -> None:
        self.sum = 0
        self.commits = 0
        self.turns = 0
        self._saves_first = saves_first

    async def turn(self, calls: Any) -> dict[str, Any]:
        self.turns += 1
        if self._saves_first:
            self.commits += 1
        for _, value in calls:
            if isinstance(value, Exception):
                raise value
        self.sum += sum(value for _, value in calls)
        self.commits += 1
        return {"replies": [{"added": value} for _, value in calls], "load": self.sum}

    async def call(self, *values: Any) -> dict[str, Any]:
        return await isolated(self.turn, lambda: self.commits, "adder")([("Add", value) for value in values])


@pytest.mark.parametrize("error", [ValueError("a secret"), KeyError("a secret"), StorageBroken("a hole")])
async def test_the_others_have_turns_of_their_own(error: Exception) -> None:
    adder = Adder()
    answer = await adder.call(1, error, 2)
    assert answer["replies"][0::2] == [{"added": 1}, {"added": 2}]
    assert (answer["load"], adder.sum, adder.turns) == (3, 3, 4)
    refusal = answer["replies"][1]
    assert refusal["success"] is False
    assert refusal["error_code"] == (error.code if isinstance(error, HoldfastError) else "INTERNAL")
    assert "secret" not in refusal["message"]


async def test_what_the_store_refuses_is_repeated_though_it_was_sent_there() -> None:
    adder = Adder(saves_first=True)
    answer = await adder.call(1, TooLarge("more than it takes"), 2)
    assert [reply.get("added") for reply in answer["replies"]] == [1, None, 2]
    assert answer["replies"][1]["error_code"] == "TOO_LARGE"


async def test_nothing_is_repeated_that_may_be_saved() -> None:
    adder = Adder(saves_first=True)
    with pytest.raises(ValueError, match="after the save"):
        await adder.call(1, ValueError("after the save"))
    assert adder.turns == 1


async def test_nothing_is_repeated_that_may_pass() -> None:
    adder = Adder()
    with pytest.raises(SaveFailed):
        await adder.call(1, SaveFailed())
    assert adder.turns == 1


async def test_a_call_alone_is_not_repeated() -> None:
    adder = Adder()
    with pytest.raises(ValueError, match="wrong"):
        await adder.call(ValueError("wrong"))
    assert adder.turns == 1


async def test_when_all_fail_the_error_is_raised() -> None:
    adder = Adder()
    with pytest.raises(ValueError, match="second"):
        await adder.call(ValueError("first"), ValueError("second"))
