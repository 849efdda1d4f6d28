"""Reminders fire when they are due, or late, and are kept until they have succeeded."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from tests.conformance.hosts import DAPR, on_every_host, on_hosts
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.stacks.base import Stack
    from tests.support.stacks.daprd import DaprStack


async def register(stack: Stack, actor: str, due: float, **reminder: Any) -> None:
    await stack.call("Reminded", actor, "register", {"name": "main", "due": due, **reminder})


async def fired(stack: Stack, actor: str, at_least: int = 1, within: float = 20) -> list[dict[str, Any]]:
    """Waits until at least so many reminders have fired, and returns them."""

    async def enough() -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = await stack.call("Reminded", actor, "fired")
        return seen if len(seen) >= at_least else []

    return await eventually(enough, within)


async def after(stack: Stack, actor: str, due: float) -> list[dict[str, Any]]:
    """Waits until a marker reminder of the same actor has fired, and returns the others that have."""
    await stack.call("Reminded", actor, "register", {"name": "marker", "due": due})

    async def marked() -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = await stack.call("Reminded", actor, "fired")
        return seen if any(event["name"] == "marker" for event in seen) else []

    return [event for event in await eventually(marked) if event["name"] != "marker"]


async def woken(stack: Stack, actor: str, at_least: int = 1, within: float = 20) -> list[dict[str, Any]]:
    async def enough() -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = await stack.call("Alarm", actor, "woken")
        return seen if len(seen) >= at_least else []

    return await eventually(enough, within)


@on_every_host
async def test_a_reminder_fires_once_with_its_data_and_not_early(stack: Stack) -> None:
    await register(stack, "once", 1.5, data="5s after 2024-01-01: ünï")
    [event] = await after(stack, "once", due=3.5)
    assert event["data"] == "5s after 2024-01-01: ünï"
    assert -0.01 < event["late"] < 5


@on_every_host
async def test_a_reminder_without_delay_fires_at_once(stack: Stack) -> None:
    await register(stack, "at-once", 0)
    assert len(await fired(stack, "at-once", within=5)) == 1


@on_every_host
async def test_a_reminder_fires_again_and_again(stack: Stack) -> None:
    await register(stack, "periodic", 1, period=0.5, data="tick")
    events = await fired(stack, "periodic", at_least=4)
    moments = [event["at"] for event in events]
    assert all(later - earlier > 0.2 for earlier, later in itertools.pairwise(moments))
    await stack.call("Reminded", "periodic", "cancel", "main")
    count = len(await stack.call("Reminded", "periodic", "fired"))
    assert len(await after(stack, "periodic", due=2)) == count


@on_every_host
async def test_many_reminders_fire_exactly_as_often_as_they_were_asked_to(stack: Stack) -> None:
    once, thrice = {"dueTime": "500ms"}, {"dueTime": "500ms", "period": "R3/PT1S"}
    endless = {"dueTime": "500ms", "period": "500ms"}
    plans: dict[str, Any] = {
        **{f"once-{number}": {"body": once} for number in range(10)},
        **{f"thrice-{number}": {"body": thrice} for number in range(10)},
        "again": {"body": once, "again": 3},
        "ended": {"body": endless, "end": 2},
    }
    times = {"once": 1, "thrice": 3, "again": 4, "ended": 2}
    expected = {name: times[name.partition("-")[0]] for name in plans}
    actors = [f"counted-{number}" for number in range(20)]
    await asyncio.gather(*(stack.call("Counted", actor, "register", plans) for actor in actors))

    async def counts() -> list[dict[str, int]]:
        return [await stack.call("Counted", actor, "counts") for actor in actors]

    async def enough() -> bool:
        return all(seen.get(name, 0) >= times for seen in await counts() for name, times in expected.items())

    await eventually(enough, within=60)
    # Longer than any of their periods: what would fire once too often has fired by then.
    await asyncio.gather(*(after(stack, actor, due=2) for actor in actors))
    assert await counts() == [expected] * len(actors)


@on_every_host
async def test_a_reminder_ends_with_its_time_to_live(stack: Stack) -> None:
    await register(stack, "ttl", 0.5, period=0.5, ttl=1.2)
    events = await after(stack, "ttl", due=4)
    assert 2 <= len(events) <= 3


@on_every_host
async def test_a_reminder_registered_again_replaces_the_first(stack: Stack) -> None:
    await register(stack, "replaced", 1, data="first")
    await register(stack, "replaced", 2, data="second")
    assert [event["data"] for event in await after(stack, "replaced", due=3.5)] == ["second"]
    await register(stack, "earlier", 60, data="first")
    await register(stack, "earlier", 1, data="second")
    assert [event["data"] for event in await fired(stack, "earlier")] == ["second"]


@on_every_host
async def test_a_cancelled_reminder_does_not_fire(stack: Stack) -> None:
    await register(stack, "cancelled", 1)
    await stack.call("Reminded", "cancelled", "cancel", "main")
    assert await after(stack, "cancelled", due=2) == []
    await stack.call("Reminded", "cancelled", "cancel", "never registered")


@on_every_host
async def test_a_reminder_that_fails_is_tried_again(stack: Stack) -> None:
    await register(stack, "failing", 0.5, failures=2, data="kept")
    events = await fired(stack, "failing", at_least=3)
    assert [(event["failed"], event["data"]) for event in events] == [(True, "kept")] * 2 + [(False, "kept")]
    assert len(await after(stack, "failing", due=2)) == 3


@on_every_host
async def test_a_reminder_is_tried_until_it_succeeds(stack: Stack) -> None:
    """daprd 1.18.2 alone would give up after the fourth failure."""
    await register(stack, "persistent", 0, failures=4, data="kept")
    events = await fired(stack, "persistent", at_least=5, within=90)
    assert [(event["failed"], event["data"]) for event in events] == [(True, "kept")] * 4 + [(False, "kept")]


@on_every_host
async def test_a_reminder_is_given_up_when_it_asked_for_that(stack: Stack) -> None:
    await register(stack, "limited", 0, failures=9, data="ünï", retry={"max": 2, "interval": 0.3})
    events = await fired(stack, "limited", at_least=3)
    assert {event["data"] for event in events} == {"ünï"}
    await register(stack, "dropped", 0, failures=9, retry={"max": 0})
    await fired(stack, "dropped")
    assert len(await after(stack, "dropped", due=2)) == 1
    assert len(await after(stack, "limited", due=1)) == 3


@on_every_host
async def test_a_reminder_can_be_registered_again_by_its_own_callback(stack: Stack) -> None:
    await register(stack, "again", 0.5, again=3)
    assert len(await fired(stack, "again", at_least=4)) == 4
    assert len(await after(stack, "again", due=2)) == 4


@on_every_host
async def test_reminders_of_one_actor_do_not_disturb_each_other(stack: Stack) -> None:
    for name, due in (("late", 2), ("early", 0.5), ("middle", 1)):
        await stack.call("Reminded", "several", "register", {"name": name, "due": due, "data": name})
    events = await fired(stack, "several", at_least=3)
    assert [(event["name"], event["data"]) for event in events] == [(n, n) for n in ("early", "middle", "late")]


@on_every_host
async def test_a_deadline_wakes_the_actor_once(stack: Stack) -> None:
    await stack.call("Alarm", "deadline", "wake_in", 1)
    assert len(await woken(stack, "deadline")) == 1
    assert await stack.call("Alarm", "deadline", "plan", {"again": 2}) is None
    await stack.call("Alarm", "deadline", "wake_in", 0.5)
    assert len(await woken(stack, "deadline", at_least=4)) == 4


@on_every_host
async def test_an_earlier_deadline_wakes_earlier(stack: Stack) -> None:
    await stack.call("Alarm", "earlier", "wake_in", 120)
    await stack.call("Alarm", "earlier", "wake_in", 0.5)
    assert len(await woken(stack, "earlier")) == 1


@on_every_host
async def test_a_deadline_is_never_given_up(stack: Stack) -> None:
    """Dapr's default gives up after three tries more; the unit of work's reminder does not."""
    await stack.call("Alarm", "stubborn", "plan", {"failures": 6})
    await stack.call("Alarm", "stubborn", "wake_in", 0.2)
    events = await woken(stack, "stubborn", at_least=7, within=150)
    assert [event["failed"] for event in events] == [True] * 6 + [False]


@on_every_host
async def test_reminders_survive_the_app(stack: Stack) -> None:
    await register(stack, "app-periodic", 0.5, period=1)
    await fired(stack, "app-periodic")
    await register(stack, "app-later", 9, data="later")
    await register(stack, "app-late", 2, data="late")
    await stack.call("Alarm", "app-late", "wake_in", 2)
    await stack.kill_app()
    await stack.pass_time(4)
    await stack.start_app()
    # At least once: on a slow machine the kill may come between its firing and its being crossed off.
    assert {event["data"] for event in await fired(stack, "app-late")} == {"late"}
    assert len(await woken(stack, "app-late")) == 1
    [later] = await fired(stack, "app-later")
    assert later["data"] == "later"
    assert later["late"] > -0.01
    before = len(await stack.call("Reminded", "app-periodic", "fired"))
    await fired(stack, "app-periodic", at_least=before + 2)
    await stack.call("Reminded", "app-periodic", "cancel", "main")


@on_hosts(*DAPR)
async def test_reminders_survive_daprd(stack: DaprStack) -> None:
    await register(stack, "daprd-late", 1, data="late")
    await register(stack, "daprd-later", 6, data="later")
    await stack.call("Alarm", "daprd-late", "wake_in", 1)
    await stack.kill_daprd()
    await stack.pass_time(3)
    await stack.start_daprd()
    assert [event["data"] for event in await fired(stack, "daprd-late")] == ["late"]
    assert len(await woken(stack, "daprd-late")) == 1
    [later] = await fired(stack, "daprd-later")
    assert later["data"] == "later"
    assert later["late"] > -0.01


@on_hosts(*DAPR)
async def test_reminders_survive_the_scheduler(stack: DaprStack) -> None:
    """Each reminder fires at least once: Dapr 1.18.2 may repeat a firing over a restart of its scheduler."""
    await register(stack, "scheduler-late", 1, data="late")
    await register(stack, "scheduler-later", 10, data="later")
    await stack.call("Alarm", "scheduler-late", "wake_in", 1)
    await stack.kill_scheduler()
    await stack.pass_time(2)
    await stack.start_scheduler()
    assert {event["data"] for event in await fired(stack, "scheduler-late", within=60)} == {"late"}
    assert await woken(stack, "scheduler-late", within=60)
    assert {event["data"] for event in await fired(stack, "scheduler-later", within=60)} == {"later"}
    await register(stack, "scheduler-new", 0.5, data="new")
    assert await fired(stack, "scheduler-new")


@on_every_host
async def test_reminders_due_while_everything_was_down_fire_late(stack: Stack) -> None:
    for n in range(10):
        await register(stack, f"down-{n}", 1, data=str(n))
    await stack.call("Alarm", "down", "wake_in", 1)
    await register(stack, "down-cancelled", 1)
    await stack.call("Reminded", "down-cancelled", "cancel", "main")
    await stack.kill_all()
    await stack.pass_time(3)
    await stack.start_all()
    for n in range(10):
        assert {event["data"] for event in await fired(stack, f"down-{n}", within=60)} == {str(n)}
    assert await woken(stack, "down", within=60)
    assert await stack.call("Reminded", "down-cancelled", "fired") == []
