"""Watches the disk: what every transaction made of every queue, and whether it may.

Independent of who asked for what: these are the rules a queue's saved state obeys from one commit to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast.kinds import QUEUE_TYPE
from holdfast.names import partition_id, split_partition
from holdfast.runtime.in_process.host import SEPARATOR
from holdfast.runtime.serialization import load
from tests.properties import stored
from tests.properties.model_stock import DEFAULTS
from tests.properties.stored import DELAYED, IN_PARCEL, LOCKED, WAITING, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.runtime.in_process.storage import Write
    from holdfast.runtime.simulated import MemoryStorage

State = tuple[str, int]


@dataclass(slots=True)
class Life:
    """An item in a queue, from the commit that brought it to the commit that removed it."""

    #: The queue, or the partition of it.
    actor: str
    id: str
    priority: int
    tag: str
    deliveries: int
    where: str
    until: float | None = None
    #: Of a dead letter, where it came from.
    origin: dict[str, Any] | None = None
    #: Which locks held it, each with the delivery count it had there.
    locks: dict[str, int] = field(default_factory=dict)
    #: What became of it in another queue.
    successor: Life | None = None
    #: The commit that removed it, and where it was before.
    gone_in: int | None = None
    gone_from: str = ""
    #: Whether that was a lock whose time was up, so that it may have been given back first.
    gone_late: bool = False
    #: Whether it may have been dropped because it expired or was to be removed.
    gone_expired: bool = False


@dataclass(slots=True)
class Watched:
    """A queue, or a partition of one, as the last commit left it."""

    contents: stored.Contents = field(default_factory=stored.Contents)
    #: Where each item is, and how often it was delivered.
    states: dict[str, State] = field(default_factory=dict)
    lives: dict[str, Life] = field(default_factory=dict)
    places: set[Place] = field(default_factory=set)
    #: The last place given in each priority.
    newest: dict[int, Place] = field(default_factory=dict)
    #: Whether anything was ever put into it.
    used: bool = False

    def setting(self, key: str) -> Any:
        return self.contents.config.get(key, DEFAULTS[key])


@dataclass(slots=True)
class Arrival:
    """When an item with a dedup id was pushed into a queue."""

    at: float
    commit: int


class Journal:
    """The queues of one disk. A broken rule is kept in ``broken``: the actor whose save it was must not swallow it."""

    def __init__(
        self, storage: MemoryStorage, now: Callable[[], float], came: Callable[[Life, Any, int], None]
    ) -> None:
        self.queues: dict[str, Watched] = {}
        #: Every item there ever was, by actor and id.
        self.lives: dict[tuple[str, str], Life] = {}
        #: Which locks there ever were in a queue, and what they held.
        self.locks: dict[tuple[str, str], list[Life]] = {}
        #: The dedup id of every item that has one, and when each came into a queue.
        self.dedup_ids: dict[tuple[str, str], str] = {}
        self._arrivals: dict[tuple[str, str], Arrival] = {}
        #: Items that a caller asked to remove, wherever they wait.
        self.unwanted: set[tuple[str, str]] = set()
        #: Dead-letter queues of which a call was asked to delete some, in no order.
        self.thinned_out: set[str] = set()
        #: The last life of what has this tag.
        self._last: dict[str, Life] = {}
        #: For each actor, the commits whose turn was told that its save had failed, or was not told anything.
        self.unheard: dict[str, list[int]] = {}
        self._last_writes: dict[str, tuple[Sequence[Write], int]] = {}
        #: For each actor, its save that had no answer and may still be committed, and callbacks for its end: with the
        #: number of the commit, or None when it was undone.
        self._under_way: dict[str, tuple[Sequence[Write], list[Callable[[int | None], None]]]] = {}
        #: The commit that last changed a dedup window, for each queue.
        self._window_changed: dict[str, int] = {}
        self._latest = 0.0
        self.commits = 0
        self.broken: Exception | None = None
        self._storage = storage
        self._now = now
        self._came = came
        self._decoded: dict[str, tuple[bytes, Any]] = {}
        storage.committed = self._committed
        storage.overwritten = self._undone

    def watched(self, actor: str) -> Watched:
        return self.queues.setdefault(actor, Watched())

    def partitions(self, queue: str) -> int:
        found: int = self.watched(queue).setting("partitions")
        return found

    def keys(self, actor: str) -> set[str]:
        """Returns the stored keys of a queue."""
        prefix = _prefix(actor)
        return {key.removeprefix(prefix) for key in self._storage.rows if key.startswith(prefix)}

    def note_time(self) -> None:
        """The clock is about to be set: what was over at this moment may be forgotten."""
        self._latest = max(self._latest, self._now())

    def save_failed(self, writes: Sequence[Write]) -> None:
        """Records that a save raised: its callers do not know whether it was committed."""
        _, actor_type, actor_id, _ = writes[0].key.split(SEPARATOR)
        last, commit = self._last_writes.get(actor_id, ((), 0))
        if actor_type != QUEUE_TYPE:
            return
        if last is writes:
            self.unheard.setdefault(actor_id, []).append(commit)
        elif self._storage.is_under_way(writes):
            self._under_way[actor_id] = writes, []

    def when_settled(self, actor: str, told: Callable[[int | None], None]) -> bool:
        """Asks for the end of a save that may still be committed. Answers whether there is one."""
        if actor not in self._under_way:
            return False
        self._under_way[actor][1].append(told)
        return True

    def _undone(self, writes: Sequence[Write]) -> None:
        self._settled(writes, None)

    def _settled(self, writes: Sequence[Write], commit: int | None) -> None:
        actor = writes[0].key.split(SEPARATOR)[2]
        found, asking = self._under_way.get(actor, ((), []))
        if found is writes:
            del self._under_way[actor]
            for told in asking:
                told(commit)

    def _committed(self, writes: Sequence[Write]) -> None:
        _, actor_type, actor_id, _ = writes[0].key.split(SEPARATOR)
        if actor_type != QUEUE_TYPE or self.broken:
            return
        self.commits += 1
        self._settled(writes, self.commits)
        self._last_writes[actor_id] = writes, self.commits
        self.note_time()
        try:
            self._follow(actor_id, {write.key.split(SEPARATOR)[-1] for write in writes})
        except Exception as error:
            # Raised here it would look like a failed save; the simulation's runner raises it.
            self.broken = error

    def _follow(self, actor: str, written: set[str]) -> None:
        watched = self.watched(actor)
        queue, partition = split_partition(actor)
        before, after = watched.contents, stored.read(self._reader(actor), partition)
        after.check()
        # One turn may have changed the configuration twice, and done something in between.
        steady = "config" not in written
        if not steady:
            self._window_changed[queue] = self.commits
        states = {item_id: (where, deliveries) for item_id, where, deliveries in after.states()}
        self._check_order(actor, before, after)
        self._check_due(before, after)
        watched.contents = after
        if steady:
            _check_locks(before, after, 0 if watched.setting("paused") else watched.setting("max_locks"))
        drops = not (steady and watched.setting("expired_to_dead_letters") and _has_dead_letters(actor, after))
        for item_id in watched.states.keys() - states.keys():
            self._went(watched.lives.pop(item_id), before, drops=drops)
        limit = watched.setting("max_deliveries") if steady and _has_dead_letters(actor, after) else float("inf")
        for item_id, (where, deliveries) in sorted(states.items() - watched.states.items()):
            life = watched.lives.get(item_id)
            if life is None:
                watched.lives[item_id] = self._came_new(actor, item_id, where, deliveries)
            else:
                self._moved(life, where, deliveries, limit)
        self._check_places(watched)
        for lock_id in after.locks.keys() - before.locks.keys():
            entries = after.locks[lock_id].entries
            self.locks[actor, lock_id] = [watched.lives[entry.id(partition)] for entry in entries]
        watched.states = states
        watched.used = (watched.used or bool(states)) and not after.deleted

    def _came_new(self, actor: str, item_id: str, where: str, deliveries: int) -> Life:
        item = self._item(actor, item_id)
        payload = load(item["item"])
        priority = int(item_id.split("-")[1])
        life = Life(actor, item_id, priority, payload["tag"], deliveries, where, item.get("until"), item.get("origin"))
        assert (actor, item_id) not in self.lives, f"the id {item_id} was given twice in {actor}"
        self.lives[actor, item_id] = life
        self._note_lock(life)
        last = self._last.get(life.tag)
        if last is None:
            self._came(life, payload, self.commits)
            if "dedup" in item:
                self._check_dedup(life, item["dedup"], item["at"])
        else:
            self._arrived(life, last)
        self._last[life.tag] = life
        return life

    def _arrived(self, life: Life, last: Life) -> None:
        """From another queue: in both never, in this one once."""
        assert last.where.startswith(IN_PARCEL), f"{life} came, and there is {last} too"
        assert last.successor is None, f"{last} came twice: {last.successor} and {life}"
        assert life.priority == last.priority
        last.successor = life
        if life.origin is None and last.origin is None:
            queue, partition = split_partition(last.actor)
            assert (queue, partition > 0) == (life.actor, True), f"{life} was sent on by {last}"
        elif life.origin is None:
            assert last.origin is not None, f"{life} came back, and was no dead letter"
            home = partition_id(last.origin["original_queue"], last.origin["original_partition"])
            assert home == life.actor, f"{life} came back to another queue than {home}"
        else:
            origin = life.origin
            home = partition_id(origin["original_queue"], origin["original_partition"])
            assert (home, origin["original_id"]) == (last.actor, last.id)
            assert origin["attempts"] == last.deliveries

    def _check_dedup(self, life: Life, dedup_id: str, at: float) -> None:
        """Asserts that no partition stores an item again inside its dedup window."""
        queue, _ = split_partition(life.actor)
        self.dedup_ids[life.actor, life.id] = dedup_id
        first = self._arrivals.get((queue, dedup_id))
        self._arrivals[queue, dedup_id] = Arrival(at, self.commits)
        partitions = [self.watched(partition_id(queue, number)) for number in range(self.partitions(queue))]
        windows = {watched.setting("dedup_window_seconds") for watched in partitions}
        if first is None or len(windows) > 1 or self._window_changed.get(queue, 0) >= first.commit:
            return
        [window] = windows
        assert first.at + window <= self._latest, f"{dedup_id} was pushed {at - first.at} s ago: {life}"

    def _moved(self, life: Life, where: str, deliveries: int, limit: float) -> None:
        assert not life.where.startswith(IN_PARCEL), f"{life} came back as {where}"
        # One that comes back from a lock may come back uncounted.
        least = life.deliveries - life.where.startswith(LOCKED)
        assert deliveries >= least, f"{life} was delivered less often than before"
        # Not one that was kept back for a while, and is no longer: the limit may have been another when it came.
        given_back = where in (WAITING, DELAYED) and (life.where.startswith(LOCKED) or deliveries > life.deliveries)
        assert not given_back or deliveries < limit, f"{life} was given back after {deliveries} deliveries"
        life.where, life.deliveries = where, deliveries
        self._note_lock(life)

    def _note_lock(self, life: Life) -> None:
        if life.where.startswith(LOCKED):
            life.locks[life.where.removeprefix(LOCKED)] = life.deliveries

    def _went(self, life: Life, before: stored.Contents, *, drops: bool) -> None:
        lock = before.locks.get(life.where.removeprefix(LOCKED))
        life.gone_late = lock is not None and lock.expires_at <= self._now()
        life.gone_expired = drops and life.until is not None and life.until <= self._latest
        life.gone_in, life.gone_from, life.where = self.commits, life.where, "gone"
        if life.gone_from.startswith(IN_PARCEL):
            assert life.successor is not None, f"{life} was crossed off before it had arrived"

    def _check_order(self, actor: str, before: stored.Contents, after: stored.Contents) -> None:
        """Whatever was left waiting comes after all that was taken: nothing overtakes."""
        if before.waiting == after.waiting or actor in self.thinned_out:
            return
        # The clock may have been set back since the turn looked at it.
        now, partition = self._latest, after.partition
        waited, waits = set(before.waiting), set(after.waiting)
        moved = {entry.place for entry, where in after.everything() if where.startswith((WAITING, IN_PARCEL, DELAYED))}
        taken = [
            entry
            for entry in waited - waits
            if entry.place not in moved
            and not (entry.until is not None and entry.until <= now)
            and (actor, entry.id(partition)) not in self.unwanted
        ]
        left = [entry for entry in waited & waits if entry.until is None or entry.until > now]
        if taken and left:
            last, first = max(entry.place for entry in taken), min(entry.place for entry in left)
            assert last < first, f"{max(taken)} was taken before {min(left)}"

    def _check_due(self, before: stored.Contents, after: stored.Contents) -> None:
        """Asserts that items became available no earlier than due, and in the order of their due times."""
        left = {item.shelved for item in after.not_due}
        placed = {entry.shelved for entry, _ in after.everything()}
        fell = [item for item in before.not_due if item.shelved not in left and item.shelved in placed]
        if fell:
            last = max(item.due for item in fell)
            assert last <= self._latest, f"{fell} fell due too early"
            known = set(before.not_due)
            earlier = [item for item in after.not_due if item in known and item.due < last]
            assert not earlier, f"{earlier} should have come before {fell}"
            order = [entry.shelved for entry in sorted(entry for entry, _ in after.everything()) if entry.shelved]
            fell.sort(key=lambda item: (item.priority, item.due, item.shelved))
            for one, other in pairwise(fell):
                if one.priority == other.priority:
                    assert order.index(one.shelved) < order.index(other.shelved), f"{other} overtook {one}"

    def _check_places(self, watched: Watched) -> None:
        """Whatever becomes available comes after all that did before."""
        new = sorted({entry.place for entry, _ in watched.contents.everything()} - watched.places)
        for place in new:
            newest = watched.newest.get(place[0])
            assert newest is None or place > newest, f"{place} was given after {newest}"
            watched.newest[place[0]] = place
        watched.places.update(new)

    def _item(self, actor: str, item_id: str) -> Any:
        """As it is stored, wherever that is."""
        _, priority, container, ordinal = item_id.split("-")
        value = self._reader(actor)
        if container.startswith("d"):
            return value(f"delayed-{container[1:]}")[int(ordinal)]
        return stored.with_segments(value)(f"segment-{priority}-{container}")[int(ordinal)]

    def _reader(self, actor: str) -> Callable[[str], Any]:
        prefix = _prefix(actor)

        def value(key: str) -> Any:
            row = self._storage.rows.get(prefix + key)
            if row is None:
                return None
            known = self._decoded.get(prefix + key)
            if known is None or known[0] is not row[0]:
                known = self._decoded[prefix + key] = (row[0], load(row[0]))
            return known[1]

        return value


def _has_dead_letters(actor: str, contents: stored.Contents) -> bool:
    queue, _ = split_partition(actor)
    return not (contents.is_dead_letter_queue or queue.endswith("-deadletter"))


def _check_locks(before: stored.Contents, after: stored.Contents, most: int) -> None:
    new = after.locks.keys() - before.locks.keys()
    assert len(after.locks) <= most or not new, f"more than {most} locks"


def _prefix(actor: str) -> str:
    return SEPARATOR.join(("holdfast", QUEUE_TYPE, actor, ""))
