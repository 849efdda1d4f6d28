"""Watches the disk: what every transaction made of every queue, and whether it may.

Independent of who asked for what: these are the rules a queue's saved state obeys from one commit to the next.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.pushpop import ACTOR_TYPE
from holdfast.runtime.inprocess import SEPARATOR
from holdfast.runtime.serialization import load
from properties import stored
from properties.stored import IN_PARCEL, LOCKED, WAITING, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.runtime.simulated import MemoryStorage
    from holdfast.runtime.storage import Write

State = tuple[str, int]


@dataclass(slots=True)
class Life:
    """One item, from the commit that brought it to the one that removed it."""

    queue: str
    id: str
    priority: int
    tag: str
    deliveries: int
    where: str
    #: Which locks held it, each with the delivery count it had there.
    locks: dict[str, int] = field(default_factory=dict)
    #: The commit that removed it, and where it was before.
    gone_in: int | None = None
    gone_from: str = ""
    #: Whether that was a lock whose time was up, so that it may have been given back first.
    gone_late: bool = False


@dataclass(slots=True)
class Watched:
    """A queue as the last commit left it."""

    contents: stored.Contents = field(default_factory=stored.Contents)
    #: Where each item is, and how often it was delivered.
    states: dict[Place, State] = field(default_factory=dict)
    lives: dict[Place, Life] = field(default_factory=dict)
    #: The last place given in each priority.
    newest: dict[int, Place] = field(default_factory=dict)


class Journal:
    """The queues of one disk. A broken rule is kept in ``broken``: the actor whose save it was must not swallow it."""

    def __init__(
        self, storage: MemoryStorage, now: Callable[[], float], came: Callable[[Life, Any, int], None]
    ) -> None:
        self.queues: dict[str, Watched] = {}
        #: Every item there ever was, by queue and id.
        self.lives: dict[tuple[str, str], Life] = {}
        #: Which locks there ever were in a queue, and what they held.
        self.locks: dict[tuple[str, str], list[Life]] = {}
        #: Dead letters by the queue and id they had before.
        self.buried: dict[tuple[str, str], Life] = {}
        self.commits = 0
        self.broken: Exception | None = None
        self._storage = storage
        self._now = now
        self._came = came
        self._decoded: dict[str, tuple[bytes, Any]] = {}
        storage.committed = self._committed

    def watched(self, queue: str) -> Watched:
        return self.queues.setdefault(queue, Watched())

    def keys(self, queue: str) -> set[str]:
        """What lies on the disk for a queue."""
        prefix = _prefix(queue)
        return {key.removeprefix(prefix) for key in self._storage.rows if key.startswith(prefix)}

    def _committed(self, writes: Sequence[Write]) -> None:
        _, actor_type, actor_id, _ = writes[0].key.split(SEPARATOR)
        if actor_type != ACTOR_TYPE or self.broken:
            return
        self.commits += 1
        try:
            self._follow(actor_id, {write.key.split(SEPARATOR)[-1] for write in writes})
        except Exception as error:
            # Raised here it would look like a failed save; whoever runs the simulation raises it.
            self.broken = error

    def _follow(self, queue: str, written: set[str]) -> None:
        watched = self.watched(queue)
        before, after = watched.contents, stored.read(self._reader(queue))
        states = {entry.place: (where, entry.deliveries) for entry, where in after.everything()}
        _check_counts(after, states)
        _check_order(before, after)
        # One turn may have changed the configuration twice, and done something in between.
        steady = "config" not in written
        if steady:
            _check_locks(before, after)
        for place in watched.states.keys() - states.keys():
            self._went(watched.lives.pop(place), before)
        limit = _most_deliveries(queue, after) if steady else float("inf")
        for place, (where, deliveries) in sorted(states.items() - watched.states.items()):
            life = watched.lives.get(place)
            if life is None:
                watched.lives[place] = self._came_new(queue, watched, stored.Entry(place, deliveries), where)
            else:
                self._moved(life, where, deliveries, limit)
        for lock_id in after.locks.keys() - before.locks.keys():
            self.locks[queue, lock_id] = [watched.lives[entry.place] for entry in after.locks[lock_id].entries]
        watched.contents = after
        watched.states = states

    def _came_new(self, queue: str, watched: Watched, entry: stored.Entry, where: str) -> Life:
        newest = watched.newest.get(entry.priority)
        assert newest is None or entry.place > newest, f"{entry.id} of {queue} was put before {newest}"
        watched.newest[entry.priority] = entry.place
        priority, segment, ordinal = entry.place
        item = self._reader(queue)(f"segment-{priority}-{segment}")["items"][ordinal]
        payload = load(item["item"])
        life = Life(queue, entry.id, entry.priority, payload["tag"], entry.deliveries, where)
        self.lives[queue, entry.id] = life
        self._note_lock(life)
        if "origin" in item:
            self._bury(life, item["origin"])
        else:
            self._came(life, payload, self.commits)
        return life

    def _moved(self, life: Life, where: str, deliveries: int, limit: float) -> None:
        assert not life.where.startswith(IN_PARCEL), f"{life} came back as {where}"
        assert deliveries >= life.deliveries, f"{life} was delivered less often than before"
        assert where != WAITING or deliveries < limit, f"{life} was given back after {deliveries} deliveries"
        life.where, life.deliveries = where, deliveries
        self._note_lock(life)

    def _note_lock(self, life: Life) -> None:
        if life.where.startswith(LOCKED):
            life.locks[life.where.removeprefix(LOCKED)] = life.deliveries

    def _went(self, life: Life, before: stored.Contents) -> None:
        lock = before.locks.get(life.where.removeprefix(LOCKED))
        life.gone_late = lock is not None and lock.expires_at <= self._now()
        life.gone_in, life.gone_from, life.where = self.commits, life.where, "gone"
        if life.gone_from.startswith(IN_PARCEL):
            assert (life.queue, life.id) in self.buried, f"{life} was crossed off before it was a dead letter"

    def _bury(self, letter: Life, origin: dict[str, Any]) -> None:
        """In both never, in the other one once."""
        key = origin["original_queue"], origin["original_id"]
        assert key not in self.buried, f"{key} is a dead letter twice"
        life = self.lives[key]
        assert life.where.startswith(IN_PARCEL), f"{life} is a dead letter, and {life.where} too"
        assert (life.tag, life.priority) == (letter.tag, letter.priority)
        assert origin["attempts"] == life.deliveries
        self.buried[key] = letter

    def _reader(self, queue: str) -> Callable[[str], Any]:
        prefix = _prefix(queue)

        def value(key: str) -> Any:
            row = self._storage.rows.get(prefix + key)
            if row is None:
                return None
            known = self._decoded.get(prefix + key)
            if known is None or known[0] is not row[0]:
                known = self._decoded[prefix + key] = (row[0], load(row[0]))
            return known[1]

        return value


def _most_deliveries(queue: str, after: stored.Contents) -> float:
    """Without end in a dead-letter queue."""
    if after.takes_dead_letters or queue.endswith("-deadletter"):
        return float("inf")
    return after.max_deliveries


def _check_counts(after: stored.Contents, states: dict[Place, State]) -> None:
    found = dict.fromkeys(after.counts, 0) | Counter(entry.priority for entry in after.waiting)
    assert found == after.counts, f"the queue counts {after.counts} but holds {found}"
    held = [entry for entry, _ in after.everything()]
    assert len(held) == len(states), f"in two places at once: {Counter(entry.place for entry in held).most_common(3)}"


def _check_order(before: stored.Contents, after: stored.Contents) -> None:
    """Whatever was left waiting comes after all that was taken: nothing overtakes."""
    if before.waiting != after.waiting:
        waited, waits = set(before.waiting), set(after.waiting)
        taken, left = waited - waits, waited & waits
        assert not taken or not left or max(taken) < min(left), f"{max(taken)} was taken before {min(left)}"


def _check_locks(before: stored.Contents, after: stored.Contents) -> None:
    new = after.locks.keys() - before.locks.keys()
    assert len(after.locks) <= after.max_locks or not new, f"more than {after.max_locks} locks"


def _prefix(queue: str) -> str:
    return SEPARATOR.join(("holdfast", ACTOR_TYPE, queue, ""))
