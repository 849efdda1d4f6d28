"""Compares calls and their answers with the commits: no item lost or delivered twice, no wrong answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.names import split_partition
from tests.properties.journal import Journal
from tests.properties.operations import ENDS_A_LOCK
from tests.properties.stored import IN_PARCEL, LOCKED

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.runtime.simulated import MemoryStorage
    from tests.properties.journal import Life
    from tests.properties.operations import Operation

Answer = dict[str, Any]
#: An actor, and an id there.
Key = tuple[str, str]

# Which refusals a call may meet, besides that of what is no request at all.
REFUSALS = {
    "Push": {"CAPACITY", "RATE_LIMITED", "CONFLICT", "NOT_FOUND"},
    "Delete": {"CONFLICT"},
    "Pop": {"QUEUE_LOCKED"},
    "PopWithAck": {"QUEUE_LOCKED"},
    "Complete": {"NOT_LEASED"},
    "Revoke": {"NOT_FOUND", "CONFLICT"},
    "Requeue": {"LOCK_NOT_FOUND", "CONFLICT", "LOCK_EXPIRED"},
    "ExtendByPrefix": {"LOCK_NOT_FOUND", "CONFLICT", "LOCK_EXPIRED"},
} | {method: {"LOCK_EXPIRED", "LOCK_NOT_FOUND", "INVALID_LOCK_ID"} for method in (*ENDS_A_LOCK, "ExtendLock")}


@dataclass(slots=True, eq=False)
class Call:
    """An operation of a caller, with the commits between which it was carried out, if it was."""

    actor: str
    operation: Operation
    #: Whether it had a turn of its own.
    alone: bool
    began: int
    ended: int | None = None
    outcome: str = "open"

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.operation.data or {}
        return data

    @property
    def unheard(self) -> bool:
        return self.outcome in ("failed", "left")

    def may_be_of(self, commit: int) -> bool:
        return self.began < commit and (self.ended is None or commit <= self.ended)


@dataclass(slots=True)
class Attempt:
    """An item that a caller tried to push."""

    call: Call
    payload: Any
    priority: int
    dedup_id: str | None
    #: As it was pushed; what became of it elsewhere follows from that.
    life: Life | None = None
    came_in: int | None = None


class Ledger:
    """Keeps every call. Answers are checked as they come; what takes hindsight is checked in :meth:`close`."""

    def __init__(self, storage: MemoryStorage, now: Callable[[], float]) -> None:
        self.journal = Journal(storage, now, self._came)
        self.calls: list[Call] = []
        self._now = now
        self._attempts: dict[str, Attempt] = {}
        #: What was promised: ids of pushes that were answered.
        self._promised: dict[Key, Attempt] = {}
        #: Of pops whose answer was lost: their turn, where it is known, and how many more they may have taken.
        self._spare: dict[Call, tuple[int | None, int]] = {}
        self._popped: set[Key] = set()
        self._acknowledged: set[Key] = set()
        #: Locks of which something may have been given back.
        self._abandoned: set[Key] = set()
        #: What was named in a completion, and locks of which only some was given back or rejected.
        self._completing: set[Key] = set()
        self._divided: set[Key] = set()
        # In the end, of each queue: calls whose answer was lost, completions, revocations, and purges.
        self._unheard_calls: dict[str, list[Call]] = {}
        self._removals: dict[Key, list[Call]] = {}
        self._purges: dict[str, list[Call]] = {}
        self._deletions: dict[str, list[Call]] = {}

    # As it happens

    def asked(self, actor: str, operation: Operation, *, alone: bool) -> Call:
        call = Call(actor, operation, alone, began=self.journal.commits)
        self.calls.append(call)
        if operation.nonsense:
            return call
        data = call.data
        match operation.method:
            case "Push":
                for entry in data.get("items", [data]):
                    attempt = Attempt(call, entry["item"], entry.get("priority", 0), entry.get("dedup_id"))
                    self._attempts[entry["item"]["tag"]] = attempt
            case "Revoke":
                self.journal.unwanted.add((actor, data["id"]))
            case "DeleteDeadLetters":
                self.journal.thinned_out.add(actor)
            case "Complete":
                self._completing.update((actor, item_id) for item_id in data["ids"])
            case "Abandon" | "DeadLetter" if "ids" in data:
                self._divided.add((actor, data["lock_id"]))
        return call

    def failed(self, call: Call, *, alive: bool) -> None:
        """An error: it was done, or it was not. ``alive``: the process still is that was asked, so that it was not
        done unless a save had an unknown outcome."""

        def settled(commit: int | None) -> None:
            call.ended = call.began if commit is None else commit

        if call.operation.method == "Delete":
            call.outcome = "failed"  # some of its turns may be done, and the rest follows by itself
            return
        if self.journal.when_settled(call.actor, settled):
            call.outcome = "failed"  # it may still be done
            return
        call.ended = self.journal.commits
        unknown = not alive or any(map(call.may_be_of, self.journal.unheard.get(call.actor, ())))
        call.outcome = "failed" if unknown else "undone"

    def left(self, call: Call) -> None:
        """The caller went away: it may still be done."""
        call.outcome = "left"

    def answered(self, call: Call, answer: Answer) -> None:
        call.ended = self.journal.commits
        refusal = answer.get("error_code")
        call.outcome = "answered" if refusal is None else refusal
        method = call.operation.method
        if call.operation.nonsense:
            assert refusal == "INVALID_REQUEST", f"{call.operation} was answered {answer}"
        elif refusal is not None:
            self._refused(call, refusal, answer)
        elif method == "Push":
            self._pushed(call, answer)
        elif method == "Pop":
            self._took(call, answer)
        elif method == "PopWithAck":
            self._locked(call, answer)
        elif method in ENDS_A_LOCK:
            self._ended(call, answer)
        elif method in ("Peek", "Stats", "DeadLetters"):
            self._looked(call, answer)

    def _came(self, life: Life, payload: Any, commit: int) -> None:
        """An item was saved that was not there before, nor in any other queue."""
        attempt = self._attempts[life.tag]
        assert attempt.life is None, f"{life.tag} was stored twice: {attempt.life} and {life}"
        attempt.life, attempt.came_in = life, commit
        assert attempt.call.actor == life.actor
        assert (attempt.payload, attempt.priority) == (payload, life.priority)

    def _refused(self, call: Call, code: str, answer: Answer) -> None:
        method = call.operation.method
        told = f"{call} was answered {answer}"
        if code == "INVALID_REQUEST":
            assert self._may_be_invalid(call), told
            return
        assert code in REFUSALS.get(method, ()), told
        if code == "QUEUE_LOCKED":
            assert answer["items"] == []
            assert answer["lock_expires_at"] > 0
        elif code in ("CAPACITY", "RATE_LIMITED"):
            assert answer["retry_after"] >= 1
        elif code == "LOCK_EXPIRED" and method in (*ENDS_A_LOCK, "ExtendLock"):
            lock = call.actor, call.data["lock_id"]
            assert lock not in self._acknowledged
            assert all(life.where != LOCKED + lock[1] for life in self.journal.locks[lock])

    def _may_be_invalid(self, call: Call) -> bool:
        """A dead letter of a dead-letter queue, items a lock does not hold, or a configuration that cannot be."""
        data, contents = call.data, self.journal.watched(call.actor).contents
        if call.operation.method in ("Abandon", "DeadLetter") and "ids" in data:
            return True
        if call.operation.method == "DeadLetter":
            return contents.is_dead_letter_queue or "-deadletter" in call.actor
        if call.operation.method == "Delete":
            return "@" in call.actor
        return call.operation.method == "SetConfig" and (
            "@" in call.actor or "capacity" in data or "partitions" in data or data.get("dead_letter_queue") is not None
        )

    def _pushed(self, call: Call, answer: Answer) -> None:
        entries = call.data.get("items", [call.data])
        new = duplicates = 0
        assert len(answer["ids"]) == len(entries)
        for entry, item_id in zip(entries, answer["ids"], strict=True):
            key = call.actor, item_id
            attempt = self._attempts[entry["item"]["tag"]]
            if attempt.life is not None:
                assert attempt.life.id == item_id
                assert key not in self._promised, f"the id {key} was given twice"
                self._promised[key] = attempt
                new += 1
                continue
            first = self._promised.get(key)
            known = self.journal.dedup_ids.get(key) if first is None else first.dedup_id
            if known is not None:
                assert known == attempt.dedup_id, f"{attempt} is said to be what {key} is"
                duplicates += 1
            elif attempt.dedup_id is None:
                # Only what is taken in the turn that brought it is never on the disk.
                assert not call.alone, f"{key} was answered but not saved"
                self._promised[key] = attempt
                new += 1
        assert new <= answer["count"] <= len(entries) - duplicates

    def _took(self, call: Call, answer: Answer) -> None:
        for key, _ in self._delivered(call, answer):
            assert key not in self._popped, f"{key} was popped twice"
            self._popped.add(key)
            life = self.journal.lives.get(key)
            assert life is None or life.where == "gone", f"{life} was popped and is still there"

    def _locked(self, call: Call, answer: Answer) -> None:
        delivered = self._delivered(call, answer)
        if not delivered:
            assert "lock_id" not in answer
            return
        held = self.journal.locks.get((call.actor, answer["lock_id"]), [])
        keys = [(life.actor, life.id) for life in held]
        if call.alone:
            assert keys == [key for key, _ in delivered]
        messages = dict(delivered)
        for life, key in zip(held, keys, strict=True):  # others may have completed some of it in the same turn
            assert life.locks[answer["lock_id"]] == messages[key]["delivery_count"]

    def _delivered(self, call: Call, answer: Answer) -> list[tuple[Key, dict[str, Any]]]:
        assert answer["count"] == len(answer["items"]) == len(answer["messages"])
        delivered = []
        for item, message in zip(answer["items"], answer["messages"], strict=True):
            key = call.actor, message["id"]
            attempt = self._attempts[item["tag"]]
            assert (attempt.payload, attempt.priority) == (item, message["priority"])
            assert key not in self._popped
            delivered.append((key, message))
        return delivered

    def _ended(self, call: Call, answer: Answer) -> None:
        method, lock_id = call.operation.method, call.data["lock_id"]
        lock = call.actor, lock_id
        held = self.journal.locks[lock]
        if method == "Acknowledge":
            self._acknowledged.add(lock)
        elif method == "Abandon":
            self._abandoned.add(lock)
        if lock in self._divided or any((life.actor, life.id) in self._completing for life in held):
            assert answer["items_acknowledged"] <= len(held)
            return
        assert answer["items_acknowledged"] == len(held)
        assert all(life.where != LOCKED + lock_id for life in held)
        if method == "Acknowledge":
            assert all(life.gone_from == LOCKED + lock_id for life in held)
        elif method == "DeadLetter":
            assert all((life.gone_from or life.where).startswith(IN_PARCEL) for life in held)

    def _looked(self, call: Call, answer: Answer) -> None:
        if call.began != call.ended:
            return  # others were at it meanwhile
        contents = self.journal.watched(call.actor).contents
        waiting = contents.waiting
        ids = [entry.id(contents.partition) for entry in waiting]
        if call.operation.method == "Stats":
            assert sum(answer["priorities"].values()) == len(waiting)
            assert (answer["delayed"], answer["count"]) == (contents.delayed, len(waiting) + contents.delayed)
        elif call.operation.method == "DeadLetters":
            assert {letter["id"] for letter in answer["dead_letters"]} <= set(ids)
        elif not any(entry.until is not None and entry.until <= self._now() for entry in waiting):
            assert [message["id"] for message in answer["messages"]] == ids[: call.data["count"]]

    # In the end

    def close(self) -> None:
        """Everything is accounted for."""
        if self.journal.broken:
            raise self.journal.broken
        for call in self.calls:
            self._sort(call)
        unexplained: dict[int, list[Life]] = {}
        for life in self.journal.lives.values():
            if life.gone_in is not None and not self._explained(life):
                unexplained.setdefault(life.gone_in, []).append(life)
        self._blame_lost_answers(unexplained)
        nowhere: dict[Call, list[Key]] = {}
        for key, attempt in self._promised.items():
            taken_at_once = key in self._popped or key in self._removals or self._purged_during(attempt.call)
            if not attempt.life and not taken_at_once:
                nowhere.setdefault(attempt.call, []).append(key)
        self._blame_pops_of_the_same_turn(nowhere)
        for attempt in self._attempts.values():
            refused = attempt.call.outcome not in ("answered", "open") and not attempt.call.unheard
            assert not (refused and attempt.life), f"{attempt} was refused, and is stored"
        self._check_bulks()

    def _sort(self, call: Call) -> None:
        method, data = call.operation.method, call.data
        done = call.unheard or call.outcome in ("answered", "NOT_LEASED")
        if not done or call.operation.nonsense:
            return
        if call.unheard:
            self._unheard_calls.setdefault(call.actor, []).append(call)
        match method:
            case "Purge" | "DeleteDeadLetters":
                self._purges.setdefault(call.actor, []).append(call)
            case "Delete" if data["force"]:
                self._deletions.setdefault(call.actor, []).append(call)
            case "Complete" | "Revoke":
                for item_id in data["ids"] if method == "Complete" else [data["id"]]:
                    self._removals.setdefault((call.actor, item_id), []).append(call)
            case "Abandon":
                self._abandoned.add((call.actor, data["lock_id"]))
            case "Requeue":
                prefix = data["lock_id_prefix"]
                locks = [lock for lock in self.journal.locks if lock[0] == call.actor and lock[1].startswith(prefix)]
                self._abandoned.update(locks)

    def _explained(self, life: Life) -> bool:
        """Returns whether a call explains the item's removal, also if the call's answer was lost."""
        assert life.gone_in is not None
        key = life.actor, life.id
        if life.gone_from.startswith(IN_PARCEL) or key in self._popped or life.gone_expired:
            return True  # the journal has seen it arrive elsewhere, if it was sent
        if any(call.may_be_of(life.gone_in) for call in self._removals.get(key, ())):
            return True
        queue, _ = split_partition(life.actor)
        if any(_may_have_deleted(call, life.gone_in) for call in self._deletions.get(queue, ())):
            return True
        if not life.gone_from.startswith(LOCKED):
            return False
        lock_id = life.gone_from.removeprefix(LOCKED)
        return (life.actor, lock_id) in self._acknowledged or any(
            call.operation.method == "Acknowledge" and call.data.get("lock_id") == lock_id
            for call in self._unheard(life.actor, life.gone_in)
        )

    def _blame_lost_answers(self, unexplained: dict[int, list[Life]]) -> None:
        """Attributes the rest to pops and purges whose answer was lost: to each once, up to its count."""
        blamed: set[Call] = set()
        for commit, lives in sorted(unexplained.items()):
            assert all(self._was_waiting(life) for life in lives), f"lost: {lives}"
            [actor] = {life.actor for life in lives}
            if any(call.may_be_of(commit) for call in self._purges.get(actor, ())):
                continue
            missing = len(lives)
            candidates = [call for call in self._unheard(actor, commit) if call.operation.method == "Pop"]
            for call in sorted(
                set(candidates) - blamed, key=lambda call: (call.ended or self.journal.commits, call.began)
            ):
                if missing > 0:
                    blamed.add(call)
                    missing -= call.data.get("count", 1)
                    self._spare[call] = commit, max(0, -missing)
            assert missing <= 0, f"lost: {lives}"

    def _blame_pops_of_the_same_turn(self, nowhere: dict[Call, list[Key]]) -> None:
        """Attributes items that were never stored to pops in the turn of their push, also without an answer."""
        for push, keys in nowhere.items():
            missing = len(keys)
            for call in self._unheard_calls.get(push.actor, ()):
                if missing <= 0 or call.operation.method != "Pop" or not self._may_share_a_turn(call, push):
                    continue
                when, spare = self._spare.get(call, (None, call.data.get("count", 1)))
                missing -= spare
                self._spare[call] = when, max(0, -missing)
            assert missing <= 0, f"{keys} were answered, and are nowhere"

    def _may_share_a_turn(self, pop: Call, push: Call) -> bool:
        assert push.ended is not None
        commit, _ = self._spare.get(pop, (None, 0))
        if commit is not None:
            return push.began < commit <= push.ended
        return pop.began < push.ended and (pop.ended is None or push.began < pop.ended)

    def _was_waiting(self, life: Life) -> bool:
        """Returns whether a pop or a purge could take the item: its lock may have ended earlier in the turn."""
        lock_id = life.gone_from.removeprefix(LOCKED)
        return lock_id == life.gone_from or life.gone_late or (life.actor, lock_id) in self._abandoned

    def _unheard(self, actor: str, commit: int) -> list[Call]:
        return [call for call in self._unheard_calls.get(actor, ()) if call.may_be_of(commit)]

    def _purged_during(self, push: Call) -> bool:
        return any(
            purge.began <= (push.ended or 0) and (purge.ended is None or push.began <= purge.ended)
            for purge in self._purges.get(push.actor, ())
        )

    def _check_bulks(self) -> None:
        """All or nothing, whatever the caller heard; but for what is a duplicate."""
        bulks: dict[Call, set[int | None]] = {}
        for attempt in self._attempts.values():
            if attempt.call.alone and attempt.dedup_id is None:
                bulks.setdefault(attempt.call, set()).add(attempt.came_in)
        for call, commits in bulks.items():
            assert len(commits) == 1, f"{call} was stored in parts"


def _may_have_deleted(call: Call, commit: int) -> bool:
    """Returns whether a deletion can be the cause. A deletion that failed halfway finishes later by itself."""
    return call.began < commit and (call.unheard or call.ended is None or commit <= call.ended)
