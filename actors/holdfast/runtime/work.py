"""One turn, one transaction: load, decide, save everything that changed, or keep nothing.

The SDK's state manager marks changes as saved before they are, so a failed save is lost later in silence, and it
keeps the changes of a turn that raised. Holdfast's actors use this instead.
"""

from __future__ import annotations

import asyncio
import weakref
from datetime import timedelta
from math import ceil
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from dapr.actor import Actor
from dapr.actor.runtime.failure_policy import ActorReminderFailurePolicy

from holdfast.errors import HoldfastError, InvalidRequest, SaveFailed, StorageBroken, TooLarge, Unavailable
from holdfast.identity import check_actor_id, check_state_key
from holdfast.runtime.contract import HostClient, StateChange
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from dapr.actor.id import ActorId
    from dapr.actor.runtime.context import ActorRuntimeContext

Answer = TypeVar("Answer")

WAKE = "wake"

# No maximum: a reminder that gave up would leave a lock that nobody expires.
_NEVER_GIVE_UP = ActorReminderFailurePolicy.constant_policy(interval=timedelta(seconds=1))
_NOTHING_OWED = float("inf")


class DurableActor(Actor):
    """The base of Holdfast's actors: a unit of work instead of the SDK's state manager, and one reminder.

    A class that wants to be woken also lists the SDK's ``Remindable`` among its own bases (the SDK looks only
    there) and overrides :meth:`on_wake`.
    """

    #: Whether turns of other actors cannot end without this one: it is still called when its host is stopping.
    serves_turns: ClassVar[bool] = False

    def __init__(self, ctx: ActorRuntimeContext, actor_id: ActorId) -> None:
        check_actor_id(actor_id.id)
        super().__init__(ctx, actor_id)
        if not isinstance(ctx.dapr_client, HostClient):
            raise TypeError(f"{type(self).__name__} must be registered with the actor_client of a Holdfast host")
        self.host: HostClient = ctx.dapr_client
        self.work = UnitOfWork(self)
        # What points back at the actor does so weakly: a deactivated one leaves memory at once, and does not wait
        # for the garbage collector, which comes the more rarely the more actors there are.
        self._state_manager._actor = weakref.proxy(self)

    def now(self) -> float:
        return self.host.now()

    async def on_wake(self) -> None:
        """The moment asked for with :meth:`Turn.wake_at` has come, or has passed, or was asked for by mistake."""

    async def receive_reminder(self, name: str, state: bytes, due_time: Any, period: Any, ttl: Any = None) -> None:
        self.work.woken()
        await self.on_wake()

    async def _reset_state_internal(self) -> None:
        # In place of the SDK's, which goes through a thread for every activation and deactivation. A turn that runs
        # is another call's than the one that failed, and drops what is in memory itself when it fails too.
        if not self.work.in_turn:
            self.work.forget()


class UnitOfWork:
    """The state of one active actor: what is known of the store, and the one turn that may change it."""

    def __init__(self, actor: DurableActor) -> None:
        self._actor: DurableActor = weakref.proxy(actor)
        self._type: str = actor.runtime_ctx.actor_type_info.type_name
        self._id: str = actor.id.id
        self._known: dict[str, Any] = {}
        self._epoch = actor.host.epoch
        self._wake_armed: float | None = None
        # The next deadline of what is saved, which has a reminder.
        self._owed = _NOTHING_OWED
        # daprd gives up a turn's lock when its caller goes away or when it restarts itself, though the turn
        # still runs here: the next one has to wait for it.
        self._lock = asyncio.Lock()
        self._began = 0.0
        meters = actor.host.meters
        self._turns = meters.turns.labels(self._type)
        self._append_failures = meters.append_failures.labels(self._type)
        #: What the actor computed from its state; dropped together with it.
        self.derived: dict[str, Any] = {}

    @property
    def in_turn(self) -> bool:
        return self._lock.locked()

    def turn(self) -> Turn:
        """``async with actor.work.turn() as turn``: saved when left, thrown away on any error."""
        return Turn(self)

    def forget(self) -> None:
        """Drops all that is held in memory; the next turn reads the store again."""
        self._known.clear()
        for computed in self.derived.values():
            if close := getattr(computed, "close", None):
                close()
        self.derived.clear()
        self._wake_armed = None
        self._owed = _NOTHING_OWED

    def woken(self) -> None:
        self._wake_armed = None

    async def _begin(self) -> None:
        await self._lock.acquire()
        self._began = perf_counter()
        if self._epoch != self._actor.host.epoch:
            self.forget()
            self._epoch = self._actor.host.epoch

    def _end(self, *, failed: bool) -> None:
        if failed:
            self.forget()
        self._turns.observe(perf_counter() - self._began)
        self._lock.release()

    async def _load(self, keys: tuple[str, ...]) -> None:
        missing = [key for key in keys if key not in self._known]
        if missing:
            try:
                found = await self._actor.host.load_state(self._type, self._id, missing)
            except HoldfastError:
                raise
            except Exception as error:
                raise Unavailable("The state could not be read. Try again.") from error
            for key in missing:
                value = found.get(key)
                self._known[key] = None if value is None else self._parsed(key, value)

    def _parsed(self, key: str, value: bytes) -> Any:
        try:
            return load(value)
        except ValueError:
            # Without the parser's words: they show a part of the value.
            raise StorageBroken(
                f"What is stored of {self._type} {self._id} is damaged: the value {key} is not JSON. "
                "Restore it from a copy."
            ) from None

    async def _save(self, changed: dict[str, Any], wake_at: float | None) -> None:
        changes = [StateChange(key, None if value is None else dump(value)) for key, value in changed.items()]
        try:
            # A deadline that is saved has its reminder, whatever happens in between. So an earlier one is armed before
            # the save, and is woken for nothing if that fails; a later one, which replaces the reminder of what the
            # save is yet to change, after it.
            put_off = wake_at is not None and wake_at >= self._owed
            if not put_off:
                await self._arm(wake_at)
            if changes:
                await self._actor.host.save_state(self._type, self._id, changes)
            if put_off:
                await self._arm(wake_at)
        except Exception as error:
            self._append_failures.inc()
            if isinstance(error, (Unavailable, InvalidRequest, TooLarge, StorageBroken)):
                raise
            raise SaveFailed from error
        self._owed = _NOTHING_OWED if wake_at is None else wake_at
        for change in changes:
            if change.value is None:
                self._known.pop(change.key, None)

    async def _arm(self, wake_at: float | None) -> None:
        if wake_at is None or (self._wake_armed is not None and self._wake_armed <= wake_at):
            return
        await self._actor.register_reminder(
            WAKE,
            b"",
            # Rounded up: woken a moment too early, there would be nothing to do but to ask again.
            due_time=timedelta(microseconds=ceil(max(0.0, wake_at - self._actor.now()) * 1_000_000)),
            period=None,
            failure_policy=_NEVER_GIVE_UP,
        )
        self._wake_armed = wake_at


class Turn:
    """One turn of one actor. Values are plain JSON; None means that there is none."""

    def __init__(self, work: UnitOfWork) -> None:
        self._work = work
        self._changed: dict[str, Any] = {}
        self._wake_at: float | None = None
        self._save_failed = False

    async def load(self, key: str) -> Any:
        """The value of a key. It is the turn's to change, but only ``put`` saves it."""
        await self._work._load((key,))
        return self._work._known[key]

    async def load_all(self, *keys: str) -> list[Any]:
        """The values of these keys, read together."""
        await self._work._load(keys)
        return [self._work._known[key] for key in keys]

    async def drive(self, steps: Generator[tuple[str, ...], list[Any], Answer]) -> Answer:
        """Gives a state machine the values of the keys it asks for, until it answers."""
        values: list[Any] | None = None
        try:
            while True:
                values = await self.load_all(*(steps.send(values) if values is not None else next(steps)))
        except StopIteration as ended:
            answer: Answer = ended.value
            return answer

    def put(self, key: str, value: Any) -> None:
        self._changed[check_state_key(key)] = value
        self._work._known[key] = value

    def delete(self, key: str) -> None:
        self.put(key, None)

    def known(self) -> list[str]:
        """The keys whose values are in memory."""
        return list(self._work._known)

    def known_value(self, key: str) -> Any:
        """The value of a key, if that is in memory."""
        return self._work._known.get(key)

    def evict(self, *keys: str) -> None:
        """Gives back the memory of values that will not be wanted soon."""
        for key in keys:
            if key not in self._changed:
                self._work._known.pop(key, None)

    def owes(self, moment: float | None) -> None:
        """Tells when the next deadline of what was loaded is, so that nothing puts its reminder off too early."""
        self._work._owed = _NOTHING_OWED if moment is None else moment

    def wake_at(self, moment: float | None) -> None:
        """Asks for ``on_wake`` at this moment, the next deadline of all the actor has; None when it has none.

        Whoever asks also says what it :meth:`owes` when it has loaded its state.
        """
        self._wake_at = moment

    async def save(self) -> None:
        """Saves what changed so far in one transaction. Leaving the turn does it for the rest."""
        if self._save_failed:
            # What is in memory now is more than what is saved: the turn cannot go on from there.
            raise SaveFailed
        changed, self._changed = self._changed, {}
        self._save_failed = True
        await self._work._save(changed, self._wake_at)
        self._save_failed = False

    async def __aenter__(self) -> Self:
        await self._work._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = True
        try:
            if kind is None:
                await self.save()
                failed = False
        finally:
            self._work._end(failed=failed)
