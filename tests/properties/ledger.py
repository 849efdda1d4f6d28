"""What callers asked and what they were told, held against what was saved: nothing lost, nothing twice, no lies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from properties.journal import Journal
from properties.operations import ENDS_A_LOCK
from properties.stored import IN_PARCEL, LOCKED

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.runtime.simulated import MemoryStorage
    from properties.journal import Life
    from properties.operations import Operation

Answer = dict[str, Any]


@dataclass(slots=True, eq=False)
class Call:
    """One operation of one caller, with the commits between which it was done, if it was."""

    queue: str
    operation: Operation
    #: Whether it had a turn of its own.
    alone: bool
    began: int
    ended: int | None = None
    outcome: str = "open"

    def may_be_of(self, commit: int) -> bool:
        return self.began < commit and (self.ended is None or commit <= self.ended)


@dataclass(slots=True)
class Attempt:
    """One item that somebody tried to push."""

    call: Call
    payload: Any
    priority: int
    lives: list[Life] = field(default_factory=list)
    came_in: int | None = None


class Ledger:
    """Keeps every call. Answers are checked as they come; what takes hindsight is checked in :meth:`close`."""

    def __init__(self, storage: MemoryStorage, now: Callable[[], float]) -> None:
        self.journal = Journal(storage, now, self._came)
        self.calls: list[Call] = []
        self._attempts: dict[str, Attempt] = {}
        #: What was promised: ids of pushes that were answered, by queue.
        self._promised: dict[tuple[str, str], Attempt] = {}
        self._popped: set[tuple[str, str]] = set()
        self._acknowledged: set[tuple[str, str]] = set()
        self._abandoned: set[tuple[str, str]] = set()
        # Of each queue, in the end: calls whose answer nobody heard, and purges.
        self._unheard_calls: dict[str, list[Call]] = {}
        self._purges: dict[str, list[Call]] = {}

    # As it happens

    def asked(self, queue: str, operation: Operation, *, alone: bool) -> Call:
        call = Call(queue, operation, alone, began=self.journal.commits)
        self.calls.append(call)
        if operation.method == "Push" and not operation.nonsense:
            for entry in operation.data.get("items", [operation.data]):
                self._attempts[entry["item"]["tag"]] = Attempt(call, entry["item"], entry.get("priority", 0))
        return call

    def failed(self, call: Call) -> None:
        """An error: it was done, or it was not."""
        call.ended, call.outcome = self.journal.commits, "failed"

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
        elif method in ("Peek", "Stats"):
            self._looked(call, answer)

    def _came(self, life: Life, payload: Any, commit: int) -> None:
        """An item was saved that is no dead letter."""
        attempt = self._attempts[life.tag]
        attempt.lives.append(life)
        attempt.came_in = commit
        assert len(attempt.lives) == 1, f"{life.tag} was stored twice: {attempt.lives}"
        assert attempt.call.queue == life.queue
        assert (attempt.payload, attempt.priority) == (payload, life.priority)

    def _refused(self, call: Call, code: str, answer: Answer) -> None:
        method = call.operation.method
        if code == "QUEUE_LOCKED":
            assert method in ("Pop", "PopWithAck")
            assert answer["items"] == []
            assert answer["lock_expires_at"] > 0
            return
        if code == "INVALID_REQUEST":
            # A dead letter of a dead-letter queue, or a queue that were to take its own.
            contents = self.journal.watched(call.queue).contents
            has_none = contents.takes_dead_letters or call.queue.endswith("-deadletter")
            assert (method == "DeadLetter" and has_none) or (
                method == "SetConfig" and call.operation.data == {"dead_letter_queue": call.queue}
            ), f"{call.operation} was answered {answer}"
            return
        assert code in ("LOCK_EXPIRED", "LOCK_NOT_FOUND", "INVALID_LOCK_ID"), f"{call.operation} was answered {answer}"
        if code == "LOCK_EXPIRED":
            lock = call.queue, call.operation.data["lock_id"]
            assert lock not in self._acknowledged
            assert all(life.where != LOCKED + lock[1] for life in self.journal.locks[lock])

    def _pushed(self, call: Call, answer: Answer) -> None:
        entries = call.operation.data.get("items", [call.operation.data])
        assert answer["count"] == len(entries) == len(set(answer["ids"]))
        for entry, item_id in zip(entries, answer["ids"], strict=True):
            key = call.queue, item_id
            assert key not in self._promised, f"the id {key} was given twice"
            attempt = self._promised[key] = self._attempts[entry["item"]["tag"]]
            if attempt.lives:
                assert attempt.lives[0].id == item_id
            else:
                # Only what is taken in the turn that brought it is never on the disk.
                assert not call.alone, f"{key} was answered but not saved"

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
        held = self.journal.locks[call.queue, answer["lock_id"]]
        assert [(life.queue, life.id) for life in held] == [key for key, _ in delivered]
        for life, (_, message) in zip(held, delivered, strict=True):
            assert life.locks[answer["lock_id"]] == message["delivery_count"]

    def _delivered(self, call: Call, answer: Answer) -> list[tuple[tuple[str, str], dict[str, Any]]]:
        assert answer["count"] == len(answer["items"]) == len(answer["messages"])
        delivered = []
        for item, message in zip(answer["items"], answer["messages"], strict=True):
            key = call.queue, message["id"]
            attempt = self._attempts[item["tag"]]
            assert (attempt.payload, attempt.priority) == (item, message["priority"])
            assert key not in self._popped
            delivered.append((key, message))
        return delivered

    def _ended(self, call: Call, answer: Answer) -> None:
        lock_id = call.operation.data["lock_id"]
        held = self.journal.locks[call.queue, lock_id]
        assert answer["items_acknowledged"] == len(held)
        assert all(life.where != LOCKED + lock_id for life in held)
        if call.operation.method == "Acknowledge":
            self._acknowledged.add((call.queue, lock_id))
            assert all(life.gone_from == LOCKED + lock_id for life in held)
        elif call.operation.method == "Abandon":
            self._abandoned.add((call.queue, lock_id))
        elif call.operation.method == "DeadLetter":
            assert all((life.gone_from or life.where).startswith(IN_PARCEL) for life in held)

    def _looked(self, call: Call, answer: Answer) -> None:
        if call.began != call.ended:
            return  # others were at it meanwhile
        waiting = self.journal.watched(call.queue).contents.waiting
        if call.operation.method == "Stats":
            assert answer["count"] == sum(answer["priorities"].values()) == len(waiting)
        else:
            shown = [message["id"] for message in answer["messages"]]
            assert shown == [entry.id for entry in waiting[: call.operation.data["count"]]]

    # In the end

    def close(self) -> None:
        """Everything is accounted for."""
        if self.journal.broken:
            raise self.journal.broken
        for call in self.calls:
            if call.operation.method == "Abandon" and call.outcome in ("failed", "left"):
                self._abandoned.add((call.queue, call.operation.data["lock_id"]))
            if call.outcome in ("failed", "left"):
                self._unheard_calls.setdefault(call.queue, []).append(call)
            if call.operation.method == "Purge":
                self._purges.setdefault(call.queue, []).append(call)
        unexplained: dict[int, list[Life]] = {}
        for life in self.journal.lives.values():
            if life.gone_in is not None and not self._explained(life):
                unexplained.setdefault(life.gone_in, []).append(life)
        self._blame_lost_answers(unexplained)
        for key, attempt in self._promised.items():
            taken_at_once = key in self._popped or self._purged_during(attempt.call)
            assert attempt.lives or taken_at_once, f"{key} was answered, and is nowhere"
        self._check_bulks()

    def _explained(self, life: Life) -> bool:
        """Whether somebody was told why it went, or would have been told, had the answer not been lost."""
        assert life.gone_in is not None
        if life.gone_from.startswith(IN_PARCEL) or (life.queue, life.id) in self._popped:
            return True  # the journal has seen a dead letter arrive
        if not life.gone_from.startswith(LOCKED):
            return False
        lock_id = life.gone_from.removeprefix(LOCKED)
        return (life.queue, lock_id) in self._acknowledged or any(
            call.operation.method == "Acknowledge" and call.operation.data.get("lock_id") == lock_id
            for call in self._unheard(life.queue, life.gone_in)
        )

    def _blame_lost_answers(self, unexplained: dict[int, list[Life]]) -> None:
        """The rest was taken by pops and purges nobody heard the end of: each of them once, and no more than asked."""
        blamed: set[Call] = set()
        for commit, lives in sorted(unexplained.items()):
            assert all(self._was_waiting(life) for life in lives), f"lost: {lives}"
            [queue] = {life.queue for life in lives}
            if any(call.may_be_of(commit) for call in self._purges.get(queue, ())):
                continue
            missing = len(lives)
            suspects = [call for call in self._unheard(queue, commit) if call.operation.method == "Pop"]
            for call in sorted(
                set(suspects) - blamed, key=lambda call: (call.ended or self.journal.commits, call.began)
            ):
                if missing > 0:
                    blamed.add(call)
                    missing -= (call.operation.data or {}).get("count", 1)
            assert missing <= 0, f"lost: {lives}"

    def _was_waiting(self, life: Life) -> bool:
        """Whether a pop or a purge could get at it: a lock may have ended earlier in the same turn."""
        lock_id = life.gone_from.removeprefix(LOCKED)
        return lock_id == life.gone_from or life.gone_late or (life.queue, lock_id) in self._abandoned

    def _unheard(self, queue: str, commit: int) -> list[Call]:
        return [call for call in self._unheard_calls.get(queue, ()) if call.may_be_of(commit)]

    def _purged_during(self, push: Call) -> bool:
        return any(
            purge.began <= (push.ended or 0) and (purge.ended is None or push.began <= purge.ended)
            for purge in self._purges.get(push.queue, ())
        )

    def _check_bulks(self) -> None:
        """All or nothing, whatever the caller heard."""
        bulks: dict[Call, set[int | None]] = {}
        for attempt in self._attempts.values():
            if attempt.call.alone:
                bulks.setdefault(attempt.call, set()).add(attempt.came_in)
        for call, commits in bulks.items():
            assert len(commits) == 1, f"{call} was stored in parts"
