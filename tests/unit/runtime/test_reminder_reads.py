"""Reminders fire as often as they were registered for, although the storage answers queries late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.in_process.reminders import Reminders
from holdfast.runtime.simulated import MemoryStorage, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.runtime.in_process.storage import Reminder

ADDRESS = ActorAddress("Reminded", "one")


class LateRows(MemoryStorage):
    """Rows are as they were a second before the answer."""

    async def earliest_reminders(self, limit: int) -> Sequence[Reminder]:
        rows = await super().earliest_reminders(limit)
        await asyncio.sleep(1)
        return rows


async def fired(body: dict[str, Any], *, deleted: bool = False) -> list[str]:
    """What fires of a reminder of this kind, while another one makes the rows be read again."""
    clock = asyncio.get_running_loop().time
    storage = LateRows(clock)
    names: list[str] = []

    async def fire(address: ActorAddress, name: str, data: bytes) -> None:
        names.append(name)
        # It ends between a query and its answer.
        await asyncio.sleep(0.5)

    reminders = Reminders(storage, fire=fire, now=clock)
    reminders.start()
    await asyncio.sleep(2)
    await reminders.register(ADDRESS, "main", {"dueTime": "1s", **body})
    # Queried at 3 s and fired at 4 s, it ends at 4.5 s. The other one is queried from 4.2 s to 5.2 s.
    await reminders.register(ADDRESS, "other", {"dueTime": "2200ms"})
    if deleted:
        await asyncio.sleep(2.5)
        await reminders.unregister(ADDRESS, "main")
    await asyncio.sleep(120)
    await reminders.stop()
    return names


@pytest.mark.parametrize(("body", "times"), [({}, 1), ({"period": "R3/PT10S"}, 3)], ids=["once", "thrice"])
def test_a_row_that_was_read_before_its_reminder_ended_is_not_fired_again(body: dict[str, Any], times: int) -> None:
    assert sorted(VirtualTimeLoop.run(fired(body))) == [*["main"] * times, "other"]


def test_a_row_that_was_read_before_its_reminder_was_deleted_is_not_fired_again() -> None:
    assert sorted(VirtualTimeLoop.run(fired({"period": "PT10S"}, deleted=True))) == ["main", "other"]
