"""One turn, one transaction: a turn loads state, changes it, and saves all changes or none.

The SDK's state manager marks changes as saved before they are, so a failed save is silently lost, and it keeps the
changes of a turn that raised. Holdfast's actors use this instead.
"""

from __future__ import annotations

import asyncio
import weakref
from datetime import timedelta
from math import ceil
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from dapr.actor import Actor
from dapr.actor.runtime.failure_policy import ActorReminderFailurePolicy

from holdfast.errors import (
    ActorMoved,
    HoldfastError,
    InvalidRequest,
    SaveFailed,
    SaveUnanswered,
    StorageBroken,
    TooLarge,
    Unavailable,
)
from holdfast.names import check_address, check_state_key
from holdfast.runtime.contract import ActorAddress, HostClient, StateChange
from holdfast.runtime.exact_numbers import check_json, original, protected
from holdfast.runtime.late_reminders import ANSWER_SECONDS, WAKE
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.yielding import Piecework

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from types import TracebackType

    from dapr.actor import ActorInterface
    from dapr.actor.id import ActorId
    from dapr.actor.runtime.context import ActorRuntimeContext

Answer = TypeVar("Answer")

# Unlimited: a reminder that gave up would leave locks that never expire.
_NEVER_GIVE_UP = ActorReminderFailurePolicy.constant_policy(interval=timedelta(seconds=1))
_NOTHING_OWED = float("inf")
# Smaller values do not count among those that an actor keeps in memory.
_SMALL_BYTES = 2 * 1024
# A hundred years: a duration of Go, which daprd reads, has 292 at most.
_LONGEST_PAUSE_SECONDS = 100.0 * 365 * 24 * 60 * 60


class DurableActor(Actor):
    """The base of Holdfast's actors: a unit of work instead of the SDK's state manager, and one reminder.

    A class that uses reminders also lists the SDK's ``Remindable`` among its direct bases (the SDK looks only there)
    and overrides :meth:`on_wake`.
    """

    #: Whether turns of other actors depend on this one: it is still called while its host is stopping.
    serves_turns: ClassVar[bool] = False
    #: Whether every number is preserved on every host. Holdfast's own actors store no number that a host would change,
    #: and Spark reads their values directly, so they turn this off.
    exact_numbers: ClassVar[bool] = True
    #: How many bytes of stored values the actor keeps in memory between its turns; None for all that it knows. For
    #: actors whose values have payloads: thousands of idle ones stay in memory.
    kept_bytes: ClassVar[int | None] = None

    def __init__(self, ctx: ActorRuntimeContext, actor_id: ActorId) -> None:
        check_address(type(self).__name__, actor_id.id)
        super().__init__(ctx, actor_id)
        if not isinstance(ctx.dapr_client, HostClient):
            raise TypeError(f"{type(self).__name__} must be registered with the actor_client of a Holdfast host")
        self.host: HostClient = ctx.dapr_client
        self.work = UnitOfWork(self)
        # References back to the actor are weak: a deactivated actor leaves memory at once, without the garbage
        # collector, which runs the more rarely the more actors there are.
        self._state_manager._actor = weakref.proxy(self)

    def now(self) -> float:
        return self.host.now()

    @property
    def can_leave(self) -> bool:
        """Whether the idle actor may be deactivated at any time: it has no work that this would delay."""
        return not self.work.in_turn

    async def on_wake(self) -> None:
        """Called when the time set with :meth:`Turn.wake_at` has come. It may be called late, or without need."""

    async def receive_reminder(self, name: str, state: bytes, due_time: Any, period: Any, ttl: Any = None) -> None:
        self.work.woken()
        await self.on_wake()
        await self.work.rearm()

    async def _reset_state_internal(self) -> None:
        # Replaces the SDK's, which uses a thread for every activation and deactivation. A turn that runs now belongs to
        # another call than the failed one, and drops its memory itself if it fails too.
        if not self.work.in_turn:
            self.work.forget()


def methods_of(interface: type[ActorInterface]) -> frozenset[str]:
    """Returns the names of the methods that an interface declares."""
    return frozenset(name for name, member in vars(interface).items() if getattr(member, "__isabstractmethod__", False))


class InternalActor(DurableActor):
    """An actor that only Holdfast's own processes may call."""

    @classmethod
    def is_public(cls, actor_id: str, method: str) -> bool:
        return False


class UnitOfWork:
    """The state of one active actor: the values known from the store, and the turn that may change them."""

    def __init__(self, actor: DurableActor) -> None:
        self._actor: DurableActor = weakref.proxy(actor)
        self._type: str = actor.runtime_ctx.actor_type_info.type_name
        self._id: str = actor.id.id
        self._address = ActorAddress(self._type, self._id)
        self._exact = actor.exact_numbers
        self._protects_numbers = self._exact and not actor.host.keeps_numbers
        self._known: dict[str, Any] = {}
        #: The stored sizes of values that are not small, of an actor that keeps only so much in memory.
        self._sizes: dict[str, int] = {}
        self._kept_bytes = actor.kept_bytes
        self._epoch = actor.host.epoch
        self._wake_armed: float | None = None
        # The next deadline of the saved state, for which there is a reminder.
        self._owed = _NOTHING_OWED
        # daprd releases an actor's turn when its caller disconnects or when it restarts itself, though the turn still
        # runs here: the next turn has to wait for it.
        self._lock = asyncio.Lock()
        self._began = 0.0
        #: The number of saves that have begun.
        self.commits = 0
        metrics = actor.host.metrics
        self._turns = metrics.turns.labels(self._type)
        self._append_failures = metrics.append_failures.labels(self._type)
        #: Objects the actor computed from its state; dropped together with it.
        self.derived: dict[str, Any] = {}

    @property
    def in_turn(self) -> bool:
        return self._lock.locked()

    def turn(self) -> Turn:
        """``async with actor.work.turn() as turn``: saves on exit, and discards the changes on any error."""
        return Turn(self)

    def forget(self) -> None:
        """Drops everything in memory; the next turn reads the store again."""
        self._known.clear()
        for computed in self.derived.values():
            if close := getattr(computed, "close", None):
                close()
        self.derived.clear()
        self._wake_armed = None
        self._owed = _NOTHING_OWED

    def woken(self) -> None:
        self._wake_armed = None

    def postpone_wake(self, wake_at: float | None) -> None:
        """Moves the reminder to the next deadline, if that is later; None if there is no deadline.

        Without this, the reminder fires at the earlier time, and in vain. Does nothing on a host that cannot move it
        together with some later save.
        """
        armed = self._wake_armed
        if armed is None or not self._actor.host.saves_reminders or (wake_at is not None and wake_at <= armed):
            return
        self._actor.host.postpone_wake(self._type, self._id, armed, wake_at)
        self._wake_armed = wake_at
        self._owed = _NOTHING_OWED if wake_at is None else wake_at

    async def rearm(self) -> None:
        """Registers the next deadline's reminder if the turn of this wake-up could not.

        If that fails, it raises, so that the reminder that has just fired fails too and the scheduler fires it again.
        """
        if self._owed == _NOTHING_OWED or self._is_armed(self._owed):
            return
        async with self._lock:
            if self._owed != _NOTHING_OWED and not self._is_armed(self._owed):
                await self._arm(self._owed)

    async def _begin(self) -> None:
        await self._lock.acquire()
        self._began = perf_counter()
        host = self._actor.host
        if self._epoch != host.epoch:
            self.forget()
            self._epoch = host.epoch
        if host.unanswered_saves and self._address in host.unanswered_saves:
            try:
                await self._settle()
            except BaseException:
                self._end(failed=True)
                raise

    async def _settle(self) -> None:
        """Settles a save whose outcome is unknown: afterwards it is done as a whole, or undone as a whole."""
        self.forget()
        host, address = self._actor.host, self._address
        keys = host.unanswered_saves.keys_of(address)
        try:
            read = await host.load_state(*address, keys)
            # A host may read keys one by one, and the save may be committed in between. That happens only once, so two
            # equal reads are consistent.
            while (again := await host.load_state(*address, keys)) != read:
                read = again
            await host.save_state(*address, _written_back(keys, read))
        except HoldfastError:
            raise
        except Exception as error:
            raise Unavailable("It is not known yet whether the last change was saved. Try again.") from error
        host.unanswered_saves.settled(address)

    def _end(self, *, failed: bool) -> None:
        if failed:
            self.forget()
        elif self._sizes:
            self._drop_large()
        self._turns.observe(perf_counter() - self._began)
        self._lock.release()

    def _note_size(self, key: str, value: bytes | None) -> None:
        if self._kept_bytes is not None:
            if value is not None and len(value) > _SMALL_BYTES:
                self._sizes[key] = len(value)
            else:
                self._sizes.pop(key, None)

    def _drop_large(self) -> None:
        """Drops values from memory until the rest fits, the largest first. The next turn reads them again."""
        assert self._kept_bytes is not None
        self._sizes = {key: size for key, size in self._sizes.items() if key in self._known}
        left = sum(self._sizes.values())
        for key, size in sorted(self._sizes.items(), key=itemgetter(1), reverse=True):
            if left <= self._kept_bytes:
                break
            left -= size
            del self._known[key], self._sizes[key]

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
                self._note_size(key, value)

    def _parsed(self, key: str, value: bytes) -> Any:
        try:
            return load(original(value) if self._protects_numbers else value)
        except ValueError:
            # Without the parser's message, which quotes a part of the value.
            raise StorageBroken(
                f"The stored state of {self._type} {self._id} is damaged: the value {key} is not JSON. "
                "Restore it from a backup."
            ) from None

    async def _save(self, changed: dict[str, Any], wake_at: float | None, *, needed: bool) -> None:
        changes: list[StateChange] = []
        work = Piecework()
        for key, value in changed.items():
            written = None if value is None else self._written(value)
            changes.append(StateChange(key, written))
            if written is not None and work.is_due(len(written)):
                await asyncio.sleep(0)
        later = wake_at is not None and wake_at >= self._owed
        together = bool(changes) and self._actor.host.saves_reminders
        try:
            if together:
                await self._commit_with_reminder(changes, wake_at)
            else:
                # The deadline is earlier than all saved ones, so its reminder is registered first; if the save then
                # fails, the actor is woken in vain. The other way round, a crash in between could leave the deadline
                # without a reminder.
                if wake_at is not None and not later:
                    await (self._arm(wake_at) if needed else self._try_to_arm(wake_at))
                if changes:
                    await self._commit(changes)
        except Exception as error:
            self._append_failures.inc()
            if isinstance(error, (Unavailable, InvalidRequest, TooLarge, StorageBroken)):
                raise
            raise SaveFailed from error
        if wake_at is not None and later and not together:
            # The save has succeeded, and so has the turn. The reminder of the earlier deadline still exists, or it has
            # just fired and fires again until the next one is registered (rearm).
            await self._try_to_arm(wake_at)
        self._owed = _NOTHING_OWED if wake_at is None else wake_at
        for change in changes:
            if change.value is None:
                self._known.pop(change.key, None)
            self._note_size(change.key, change.value)

    async def _commit_with_reminder(self, changes: list[StateChange], wake_at: float | None) -> None:
        if wake_at is None or self._is_armed(wake_at):
            await self._commit(changes)
            return
        await self._commit(changes, wake_at)
        self._wake_armed = wake_at

    async def _commit(self, changes: list[StateChange], wake_at: float | None = None) -> None:
        host = self._actor.host
        self.commits += 1
        try:
            if wake_at is None:
                await host.save_state(self._type, self._id, changes)
            else:
                await host.save_with_reminder(self._type, self._id, changes, wake_at)
        except (SaveUnanswered, ActorMoved):
            host.unanswered_saves.note(self._address, (change.key for change in changes))
            raise
        except HoldfastError:
            raise
        except BaseException:
            # The host does not say whether it saved, or the turn was cancelled meanwhile.
            host.unanswered_saves.note(self._address, (change.key for change in changes))
            raise

    def _written(self, value: Any) -> bytes:
        return protected(dump(value)) if self._protects_numbers else dump(value)

    async def _try_to_arm(self, wake_at: float) -> None:
        """Registers the reminder, or leaves it to the background if the scheduler does not accept it now."""
        if self._is_armed(wake_at):
            return
        late = self._actor.host.late_reminders
        if late.failing:
            late.add(self._address)
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._arm(wake_at)
        except Exception as error:
            # Any error: the save does not depend on the reminder.
            late.add(self._address, error)

    async def _arm(self, wake_at: float) -> None:
        if self._is_armed(wake_at):
            return
        # Woken before its deadline, the actor registers the reminder again.
        pause = min(max(0.0, wake_at - self._actor.now()), _LONGEST_PAUSE_SECONDS)
        await self._actor.register_reminder(
            WAKE,
            b"",
            # Rounded up: otherwise it would be registered again for the last fraction of a microsecond.
            due_time=timedelta(microseconds=ceil(pause * 1_000_000)),
            period=None,
            failure_policy=_NEVER_GIVE_UP,
        )
        self._wake_armed = wake_at

    def _is_armed(self, moment: float) -> bool:
        return self._wake_armed is not None and self._wake_armed <= moment


def _written_back(keys: Iterable[str], read: Mapping[str, bytes]) -> list[StateChange]:
    """Returns changes that write these values as they were read, and so wait for all transactions that write them.

    In PostgreSQL, a deletion does not wait for an uncommitted transaction that has inserted the same key. So a missing
    value is first written, and then deleted.
    """
    changes = []
    for key in keys:
        if key not in read:
            changes.append(StateChange(key, b"0"))
        changes.append(StateChange(key, read.get(key)))
    return changes


class Turn:
    """One turn of one actor. Values are plain JSON; None means that the key has no value."""

    def __init__(self, work: UnitOfWork) -> None:
        self._work = work
        self._changed: dict[str, Any] = {}
        self._wake_at: float | None = None
        self._wake_needed = True
        self._save_failed = False

    async def load(self, key: str) -> Any:
        """Returns the value of a key. The turn may change it, but only ``put`` saves it."""
        await self._work._load((key,))
        return self._work._known[key]

    async def load_all(self, *keys: str) -> list[Any]:
        """Returns the values of these keys, read together."""
        await self._work._load(keys)
        return [self._work._known[key] for key in keys]

    async def drive(self, steps: Generator[tuple[str, ...], list[Any], Answer]) -> Answer:
        """Runs a state machine: sends it the values of the keys it yields, and returns its reply."""
        values: list[Any] | None = None
        try:
            while True:
                values = await self.load_all(*(steps.send(values) if values is not None else next(steps)))
        except StopIteration as ended:
            answer: Answer = ended.value
            return answer

    def put(self, key: str, value: Any) -> None:
        """Sets a value. Raises TypeError or ValueError if JSON cannot preserve it: a set, a tuple or NaN."""
        if self._work._exact:
            check_json(value)
        self._changed[check_state_key(key)] = value
        self._work._known[key] = value

    def delete(self, key: str) -> None:
        self.put(key, None)

    def known(self) -> list[str]:
        """Returns the keys whose values are in memory."""
        return list(self._work._known)

    def known_value(self, key: str) -> Any:
        """Returns the value of a key, if it is in memory."""
        return self._work._known.get(key)

    def evict(self, *keys: str) -> None:
        """Removes values from memory that will not be needed soon."""
        for key in keys:
            if key not in self._changed:
                self._work._known.pop(key, None)

    def owes(self, moment: float | None) -> None:
        """Sets the next deadline of the loaded state, so that its reminder is not replaced by a later one."""
        self._work._owed = _NOTHING_OWED if moment is None else moment

    def wake_at(self, moment: float | None, *, needed: bool = True) -> None:
        """Requests ``on_wake`` at this time, the actor's next deadline; None if it has none.

        An actor that uses this also calls :meth:`owes` when it has loaded its state. ``needed`` means that only the
        reminder serves the deadline, so nothing is saved without it. It is False for an actor that processes what is
        overdue in every operation: there a missing reminder causes a delay, and is registered as soon as the scheduler
        accepts it.
        """
        self._wake_at = moment
        self._wake_needed = needed

    async def save(self) -> None:
        """Saves the changes so far in one transaction. Leaving the turn saves the rest."""
        if self._save_failed:
            # Memory has changes that were not saved, so the turn cannot continue.
            raise SaveFailed
        changed, self._changed = self._changed, {}
        self._save_failed = True
        await self._work._save(changed, self._wake_at, needed=self._wake_needed)
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
