"""The unit of work against a host in memory: one turn, one transaction, and nothing kept of what failed."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from dapr.actor import Actor, ActorId, ActorInterface, Remindable, actormethod
from dapr.actor.runtime._type_information import ActorTypeInformation
from dapr.actor.runtime.context import ActorRuntimeContext

from holdfast import errors
from holdfast.runtime.contract import HostClient, StateChange
from holdfast.runtime.dapr_sdk import JsonSerializer, ResettingManager
from holdfast.runtime.unit_of_work import WAKE, DurableActor
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence


class Subject(DurableActor, Remindable, ActorInterface):
    async def fail(self) -> None:
        raise errors.NotFound


class MemoryHost(HostClient):
    """State and reminders in memory, a clock that stands still, and the next fault of a save or a read."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}
        self.saves: list[list[StateChange]] = []
        self.loads: list[list[str]] = []
        self.reminders: list[dict[str, Any]] = []
        self.reminders_tried = 0
        self.time = 1000.0
        self.before_save: Exception | None = None
        self.after_save: Exception | None = None
        self.on_load: Exception | None = None
        self.on_reminder: Exception | None = None

    def now(self) -> float:
        return self.time

    async def load_state(self, actor_type: str, actor_id: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        await asyncio.sleep(0)
        if self.on_load:
            raise self.on_load
        self.loads.append(list(keys))
        return {key: self.rows[key] for key in keys if key in self.rows}

    async def save_state(self, actor_type: str, actor_id: str, changes: Sequence[StateChange]) -> None:
        await asyncio.sleep(0)
        if self.before_save:
            raise self.before_save
        self.saves.append(list(changes))
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        if self.after_save:
            raise self.after_save

    async def register_reminder(self, actor_type: str, actor_id: str, name: str, data: bytes) -> None:
        self.reminders_tried += 1
        if self.on_reminder:
            raise self.on_reminder
        self.reminders.append({"name": name, **json.loads(data)})

    async def _unused(self, *arguments: Any) -> Any:
        raise NotImplementedError

    invoke_method = save_state_transactionally = get_state = _unused  # type: ignore[assignment]
    unregister_reminder = register_timer = unregister_timer = _unused  # type: ignore[assignment]


@pytest.fixture
async def host() -> AsyncIterator[MemoryHost]:
    host = MemoryHost()
    yield host
    await host.late_reminders.close()


@pytest.fixture
def context(host: MemoryHost) -> ActorRuntimeContext:
    serializer = JsonSerializer()
    return ActorRuntimeContext(ActorTypeInformation.create(Subject), serializer, serializer, host)


@pytest.fixture
def actor(context: ActorRuntimeContext) -> Subject:
    return Subject(context, ActorId("one"))


async def put(actor: Subject, **values: Any) -> None:
    async with actor.work.turn() as turn:
        for key, value in values.items():
            turn.put(key, value)


async def get(actor: Subject, key: str) -> Any:
    async with actor.work.turn() as turn:
        return await turn.load(key)


async def test_a_turn_is_one_transaction(actor: Subject, host: MemoryHost) -> None:
    await put(actor, a=1, b={"c": None}, d="2024-01-01")
    [changes] = host.saves
    assert changes == [("a", b"1"), ("b", b'{"c":null}'), ("d", b'"2024-01-01"')]


async def test_a_value_that_json_does_not_have_fails_the_turn_and_saves_nothing(
    actor: Subject, host: MemoryHost
) -> None:
    await put(actor, a=1)
    with pytest.raises(TypeError, match="A state value has a set"):
        await put(actor, a=2, b={1, 2})
    assert host.rows == {"a": b"1"}
    assert await get(actor, "a") == 1


async def test_a_turn_that_changed_nothing_saves_nothing(actor: Subject, host: MemoryHost) -> None:
    assert await get(actor, "a") is None
    assert host.saves == []


async def test_what_is_known_is_not_read_again(actor: Subject, host: MemoryHost) -> None:
    host.rows["a"] = b"1"
    async with actor.work.turn() as turn:
        assert await turn.load_all("a", "b") == [1, None]
    async with actor.work.turn() as turn:
        assert await turn.load_all("a", "b", "c") == [1, None, None]
    assert host.loads == [["a", "b"], ["c"]]


@pytest.mark.parametrize("damage", [b"{broken", b"\xff", b"NaN", b""])
async def test_a_value_that_cannot_be_read_is_told_of_and_not_shown(
    actor: Subject, host: MemoryHost, damage: bytes
) -> None:
    host.rows |= {"a": damage, "b": b"1"}
    with pytest.raises(errors.StorageBroken, match=r"Subject one is damaged: the value a is not JSON\.") as told:
        await get(actor, "a")
    assert told.value.__cause__ is None
    assert await get(actor, "b") == 1
    host.rows["a"] = b"2"
    assert await get(actor, "a") == 2


async def test_a_turn_sees_its_own_changes(actor: Subject, host: MemoryHost) -> None:
    await put(actor, a=1)
    async with actor.work.turn() as turn:
        turn.put("a", 2)
        turn.put("b", 3)
        assert await turn.load_all("a", "b") == [2, 3]
        turn.delete("a")
        assert await turn.load("a") is None
    assert host.rows == {"b": b"3"}
    assert await get(actor, "a") is None


async def test_what_is_evicted_is_read_again_but_not_what_is_to_be_saved(actor: Subject, host: MemoryHost) -> None:
    await put(actor, a=1, b=2)
    async with actor.work.turn() as turn:
        turn.put("b", 3)
        turn.evict("a", "b", "never-known")
        assert await turn.load_all("a", "b") == [1, 3]
    assert host.loads == [["a"]]
    assert host.rows == {"a": b"1", "b": b"3"}


@pytest.mark.parametrize("error", [errors.InvalidRequest(), RuntimeError(), asyncio.CancelledError()])
async def test_an_error_in_the_turn_keeps_nothing(actor: Subject, host: MemoryHost, error: BaseException) -> None:
    await put(actor, a=1)

    async def fail() -> None:
        async with actor.work.turn() as turn:
            turn.put("a", 2)
            actor.work.derived["of a"] = 2
            raise error

    with pytest.raises(type(error)):
        await fail()
    assert actor.work.derived == {}
    assert await get(actor, "a") == 1
    await put(actor, b=3)
    assert host.rows == {"a": b"1", "b": b"3"}


async def test_a_refused_save_keeps_nothing(actor: Subject, host: MemoryHost) -> None:
    await put(actor, a=1)
    host.before_save = OSError("no")
    with pytest.raises(errors.SaveFailed) as failure:
        await put(actor, a=2)
    assert failure.value.retryable
    host.before_save = None
    assert await get(actor, "a") == 1
    await put(actor, b=3)
    assert host.rows == {"a": b"1", "b": b"3"}


async def test_a_save_without_a_reply_is_read_again(actor: Subject, host: MemoryHost) -> None:
    await put(actor, a=1)
    host.after_save = TimeoutError()
    with pytest.raises(errors.SaveFailed):
        await put(actor, a=2)
    host.after_save = None
    assert await get(actor, "a") == 2


async def test_a_save_without_a_reply_is_settled_before_the_next_turn(actor: Subject, host: MemoryHost) -> None:
    await put(actor, a=1)
    host.before_save = errors.SaveUnanswered()
    with pytest.raises(errors.SaveUnanswered):
        await put(actor, a=2, b=2)
    with pytest.raises(errors.SaveUnanswered):
        await get(actor, "a")
    host.before_save = None
    host.saves.clear()
    assert await get(actor, "a") == 1
    # Written back as it was read, in the order of the save: that waits for one that is under way, and undoes it. For
    # a row that it inserts only a write waits, so what was not there is written before it is deleted.
    assert host.saves == [[("a", b"1"), ("b", b"0"), ("b", None)]]
    await get(actor, "a")
    assert len(host.saves) == 1


async def test_what_is_read_while_a_save_is_committed_is_read_again(actor: Subject, host: MemoryHost) -> None:
    host.before_save = errors.SaveUnanswered()
    with pytest.raises(errors.SaveUnanswered):
        await put(actor, a=2, b=2)
    host.before_save = None
    load_state = host.load_state

    async def commit_in_between(actor_type: str, actor_id: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        found = dict(await load_state(actor_type, actor_id, keys))
        if not host.rows:
            host.rows |= {"a": b"2", "b": b"2"}
            found["b"] = b"2"
        return found

    host.load_state = commit_in_between  # type: ignore[method-assign]
    assert await get(actor, "a") == 2
    assert host.rows == {"a": b"2", "b": b"2"}


async def test_a_save_that_was_refused_needs_no_settling(actor: Subject, host: MemoryHost) -> None:
    host.before_save = errors.SaveFailed("The disk is full.")
    with pytest.raises(errors.SaveFailed):
        await put(actor, a=2)
    assert await get(actor, "a") is None
    assert not host.unanswered_saves


async def test_a_save_without_a_reply_is_settled_though_the_actor_left_memory(
    actor: Subject, host: MemoryHost, context: ActorRuntimeContext
) -> None:
    host.before_save = errors.SaveUnanswered()
    with pytest.raises(errors.SaveUnanswered):
        await put(actor, a=2)
    host.before_save = None
    assert await get(Subject(context, ActorId("two")), "a") is None
    assert host.saves == []
    assert await get(Subject(context, ActorId("one")), "a") is None
    assert host.saves == [[("a", b"0"), ("a", None)]]


async def test_the_storage_says_what_is_wrong(actor: Subject, host: MemoryHost) -> None:
    host.before_save = errors.TooLarge("A value is too large.")
    with pytest.raises(errors.TooLarge, match="A value is too large"):
        await put(actor, a=2)
    host.before_save = errors.SaveFailed("The disk is full.")
    with pytest.raises(errors.SaveFailed, match="The disk is full"):
        await put(actor, a=2)
    assert host.rows == {}


async def test_a_turn_goes_no_further_after_a_save_that_failed(actor: Subject, host: MemoryHost) -> None:
    await put(actor, a=1, b=1)
    host.before_save = OSError("no")

    async def go_on_regardless() -> None:
        async with actor.work.turn() as turn:
            turn.put("a", 2)
            with pytest.raises(errors.SaveFailed):
                await turn.save()
            host.before_save = None
            turn.put("b", 2)

    with pytest.raises(errors.SaveFailed):
        await go_on_regardless()
    assert host.rows == {"a": b"1", "b": b"1"}
    assert await get(actor, "a") == 1


async def test_a_failed_read_is_retryable_and_leaves_nothing_behind(actor: Subject, host: MemoryHost) -> None:
    host.rows["a"] = b"1"
    host.on_load = OSError("no")
    with pytest.raises(errors.Unavailable):
        await get(actor, "a")
    host.on_load = None
    assert await get(actor, "a") == 1


async def test_a_turn_waits_for_the_one_before_it(actor: Subject, host: MemoryHost) -> None:
    async def add() -> None:
        async with actor.work.turn() as turn:
            value = await turn.load("a") or 0
            await asyncio.sleep(0)
            turn.put("a", value + 1)

    await asyncio.gather(*(add() for _ in range(20)))
    assert host.rows == {"a": b"20"}


async def test_what_was_read_in_another_epoch_is_read_again(actor: Subject, host: MemoryHost) -> None:
    await put(actor, a=1)
    host.rows["a"] = b"2"
    assert await get(actor, "a") == 1
    host.epoch += 1
    assert await get(actor, "a") == 2
    assert await get(actor, "a") == 2
    assert host.loads == [["a"]]


async def test_a_call_that_fails_does_not_take_the_memory_of_the_turn_after_it(
    context: ActorRuntimeContext, host: MemoryHost
) -> None:
    """daprd may have begun that one before this one's failure is dealt with."""
    manager = ResettingManager(context)
    host.rows["a"] = b"1"
    await manager.activate_actor(ActorId("one"))
    actor: Any = manager._active_actors["one"]
    async with actor.work.turn() as turn:
        turn.put("a", 2)
        with pytest.raises(errors.NotFound):
            await manager.dispatch(ActorId("one"), "fail", b"")
        assert await turn.load_all("a", "b") == [2, None]
    assert host.rows == {"a": b"2"}


class EmptyHost(MemoryHost):
    async def get_state(self, actor_type: str, actor_id: str, name: str) -> bytes:
        return b""


class PlainInterface(ActorInterface):
    @actormethod(name="fail")
    async def fail(self) -> None: ...


class Plain(Actor, PlainInterface):
    """An actor of the SDK, whose state manager keeps changes in memory until they are saved."""

    gate: ClassVar[asyncio.Event]

    async def fail(self) -> None:
        await self._state_manager.set_state("n", "unsaved")
        await self.gate.wait()
        raise errors.NotFound


@pytest.mark.parametrize("replaced", [False, True])
async def test_the_activation_that_failed_forgets_its_changes_and_no_other(replaced: bool) -> None:
    serializer = JsonSerializer()
    context = ActorRuntimeContext(ActorTypeInformation.create(Plain), serializer, serializer, EmptyHost())
    manager = ResettingManager(context)
    Plain.gate = asyncio.Event()
    call = asyncio.create_task(manager.dispatch(ActorId("one"), "fail", b""))
    await eventually(lambda: "one" in manager._active_actors)
    failed = manager._active_actors["one"]
    if replaced:
        manager._active_actors["one"] = Plain(context, ActorId("one"))
        await manager._active_actors["one"]._state_manager.set_state("n", "in a turn")
    Plain.gate.set()
    with pytest.raises(errors.NotFound):
        await call
    assert await failed._state_manager.try_get_state("n") == (False, None)
    if replaced:
        assert await manager._active_actors["one"]._state_manager.get_state("n") == "in a turn"


async def test_a_deadline_arms_one_reminder_for_good(actor: Subject, host: MemoryHost) -> None:
    async with actor.work.turn() as turn:
        turn.wake_at(1060.5)
    [reminder] = host.reminders
    assert reminder["name"] == WAKE
    assert reminder["dueTime"] == "60s500000us"
    assert reminder["period"] is None
    assert "maxRetries" not in reminder["failurePolicy"]["constant"]


async def test_a_reminder_is_armed_only_when_the_deadline_is_earlier(actor: Subject, host: MemoryHost) -> None:
    for moment in (1060.0, 1060.0, 1090.0, None, 1030.0, 1045.0):
        async with actor.work.turn() as turn:
            turn.wake_at(moment)
    assert [reminder["dueTime"] for reminder in host.reminders] == ["60s", "30s"]


async def test_a_deadline_that_has_passed_is_due_at_once(actor: Subject, host: MemoryHost) -> None:
    async with actor.work.turn() as turn:
        turn.wake_at(5.0)
    assert [reminder["dueTime"] for reminder in host.reminders] == ["0s"]


async def test_after_it_was_woken_any_deadline_is_armed_again(actor: Subject, host: MemoryHost) -> None:
    async with actor.work.turn() as turn:
        turn.wake_at(1030.0)
    await actor.receive_reminder(WAKE, b"", None, None)
    async with actor.work.turn() as turn:
        turn.wake_at(1060.0)
    assert len(host.reminders) == 2


async def lock(actor: Subject) -> None:
    async with actor.work.turn() as turn:
        turn.put("lock", 1)
        turn.wake_at(1030.0)


async def test_a_deadline_is_armed_before_what_has_it_is_saved(actor: Subject, host: MemoryHost) -> None:
    host.before_save = OSError("no")
    with pytest.raises(errors.SaveFailed):
        await lock(actor)
    assert len(host.reminders) == 1
    host.before_save = None
    await lock(actor)
    assert len(host.reminders) == 2, "whether the first one was heard is not known"


async def test_without_its_reminder_nothing_is_saved(actor: Subject, host: MemoryHost) -> None:
    host.on_reminder = OSError("no")
    with pytest.raises(errors.SaveFailed):
        await lock(actor)
    assert host.rows == {}


async def put_off(actor: Subject, *, needed: bool = True) -> None:
    """As an actor does that finds a deadline in what it loaded, and changes something that has none."""
    async with actor.work.turn() as turn:
        turn.owes(1030.0)
        turn.put("item", 1)
        turn.wake_at(1030.0, needed=needed)


@pytest.mark.parametrize("needed", [True, False])
async def test_what_is_saved_is_answered_so_though_the_scheduler_is_down(
    actor: Subject, host: MemoryHost, needed: bool
) -> None:
    host.on_reminder = errors.Unavailable()
    for _ in range(3):
        await put_off(actor, needed=needed)
    assert host.rows == {"item": b"1"}
    host.on_reminder = None
    await eventually(lambda: host.reminders)
    assert [(reminder["name"], reminder["dueTime"]) for reminder in host.reminders] == [(WAKE, "0s")]


async def test_a_deadline_that_every_operation_looks_for_is_saved_without_its_reminder(
    actor: Subject, host: MemoryHost
) -> None:
    host.on_reminder = errors.Unavailable()
    async with actor.work.turn() as turn:
        turn.put("lock", 1)
        turn.wake_at(1030.0, needed=False)
    assert host.rows == {"lock": b"1"}
    host.on_reminder = None
    await eventually(lambda: host.reminders)


async def test_while_the_scheduler_is_down_turns_do_not_try_it_one_after_the_other(
    actor: Subject, host: MemoryHost
) -> None:
    host.on_reminder = errors.Unavailable()
    await put_off(actor)
    tried = host.reminders_tried
    for _ in range(20):
        await put_off(actor)
    assert host.reminders_tried == tried


async def test_a_wake_up_that_cannot_register_the_next_one_is_repeated(actor: Subject, host: MemoryHost) -> None:
    async def on_wake() -> None:
        await put_off(actor)

    actor.on_wake = on_wake  # type: ignore[method-assign]
    host.on_reminder = errors.Unavailable()
    with pytest.raises(errors.Unavailable):
        await actor.receive_reminder(WAKE, b"", None, None)
    assert host.rows == {"item": b"1"}
    host.on_reminder = None
    await actor.receive_reminder(WAKE, b"", None, None)
    assert {reminder["dueTime"] for reminder in host.reminders} == {"30s"}


async def test_reminders_that_are_missing_are_given_up_with_the_host(actor: Subject, host: MemoryHost) -> None:
    # The loop lasts as long as the session: other tests' fixtures may have tasks of their own in it.
    before = asyncio.all_tasks()
    host.on_reminder = errors.Unavailable()
    await put_off(actor)
    assert len(host.late_reminders) == 1
    assert asyncio.all_tasks() > before
    await host.late_reminders.close()
    await put_off(actor)
    host.on_reminder = None
    await put_off(actor)
    assert asyncio.all_tasks() <= before


async def test_a_hostile_key_is_refused(actor: Subject, host: MemoryHost) -> None:
    with pytest.raises(ValueError, match="not a state key"):
        await put(actor, **{"a||b": 1})
    assert host.saves == []


def test_a_hostile_id_is_refused(context: ActorRuntimeContext) -> None:
    with pytest.raises(errors.InvalidRequest):
        Subject(context, ActorId("a||b"))
