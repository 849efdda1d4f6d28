"""The BLOCKED state of an instance: the reason, since when, and the messages that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.orchestration.core.messages import Resume, Suspend
from holdfast.orchestration.storage.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.orchestration.core.history import Event
    from holdfast.orchestration.core.messages import Message

#: The pause between two retries of the code of a BLOCKED instance: as long as it has been BLOCKED, within these bounds.
#: A retry helps if the instance has moved to a process with other code. In the same process the result is nearly always
#: the same, and replaying thousands of instances every half minute would keep the server busy.
RETRY_SECONDS = 30.0
LONGEST_RETRY_SECONDS = 300.0


class Blocking:
    """The part of an instance's record about code that does not fit."""

    def __init__(self) -> None:
        #: kind, message, expected, found, line, since, suspended; None when it is not BLOCKED.
        self.reason: dict[str, Any] | None = None
        #: How often it was blocked or unblocked: orders the entries for the instance index.
        self.changes = 0
        self.inbox = Inbox()
        #: The execution and the number of the last call whose different content was accepted.
        self._accepted = (0, 0)
        #: The number of suspend requests in the inbox, and how many of them remain up to the last one, if no resume
        #: follows it. That last one is delivered before all other messages, so that the code does not run for them.
        self._suspends = 0
        self._suspends_ahead = 0
        self._suspension = Suspend()
        self._dirty = False

    def next_retry(self, now: float) -> float:
        """Returns when the code is tried again."""
        blocked_for = 0.0 if self.reason is None else now - self.reason["since"]
        return now + min(max(RETRY_SECONDS, blocked_for), LONGEST_RETRY_SECONDS)

    def block(self, reason: dict[str, Any], now: float, *, suspended: bool) -> bool:
        """Records the reason. Returns False when the instance is BLOCKED for this reason already.

        ``suspended`` is whether the instance was SUSPENDED until now.
        """
        before = self.reason or {"since": now, "suspended": suspended}
        reason = {**reason, "since": before["since"], "suspended": before["suspended"]}
        if reason == self.reason:
            return False
        if self.reason is None:
            self.changes += 1
        self.reason = reason
        self._dirty = True
        return True

    def suspend(self, suspended: bool) -> None:
        """Records whether a BLOCKED instance will be SUSPENDED when its code fits again."""
        if self.reason is not None and self.reason["suspended"] != suspended:
            self.reason = {**self.reason, "suspended": suspended}
            self._dirty = True

    def go_on(self) -> None:
        if self.reason is not None:
            self.reason = None
            self.changes += 1
            self._dirty = True

    @property
    def delivering(self) -> bool:
        """Whether the code fits again and the inbox has to be delivered."""
        return self.reason is None and not self.inbox.empty

    @property
    def suspension(self) -> Suspend | None:
        """The request to suspend that is delivered before all messages in the inbox."""
        return self._suspension if self._suspends_ahead else None

    def keep(self, message: Message) -> int:
        """Puts a message into the inbox. Returns its size in bytes."""
        if isinstance(message, Suspend):
            self._suspends += 1
            self._suspends_ahead, self._suspension = self._suspends, message
        elif isinstance(message, Resume) and self.reason is not None:
            self._suspends_ahead = 0
        return self.inbox.add(message)

    def is_overruled(self, message: Message) -> bool:
        """Returns whether a suspend or a resume in the inbox has no effect, because a later suspend is in force."""
        return self._suspends_ahead > 0 and isinstance(message, Suspend | Resume)

    def delivered(self, message: Message) -> None:
        """Counts a message of the inbox that was delivered, or was overruled."""
        if isinstance(message, Suspend):
            self._suspends = max(0, self._suspends - 1)
            self._suspends_ahead = max(0, self._suspends_ahead - 1)

    def accept(self, calls: Sequence[Event]) -> list[Event]:
        """Returns the calls that were not accepted before."""
        new = [call for call in calls if (call.execution_id, call.seq) > self._accepted]
        if new:
            self._accepted = max((call.execution_id, call.seq) for call in new)
            self._dirty = True
        return new

    def dropped(self) -> Blocking:
        """Returns the state after the instance was deleted: only messages to be deleted."""
        left = Blocking()
        left.inbox = self.inbox
        left.inbox.drop()
        return left

    @property
    def changed(self) -> bool:
        return self._dirty or self.inbox.changed

    def state_changes(self) -> dict[str, Any]:
        """Returns the state values, without the head, that changed since the last call."""
        self._dirty = False
        return self.inbox.changes()

    def dump(self) -> dict[str, Any]:
        """Returns the fields for the head: none for an instance that was never BLOCKED."""
        suspends = [self._suspends, self._suspends_ahead, self._suspension.reason]
        dumped = [self.reason, self.changes, self._accepted, self.inbox.dump(), suspends]
        return {"blocking": dumped} if self.changes or any(self._accepted) or self.inbox.in_store else {}

    @classmethod
    def restore(cls, head: dict[str, Any]) -> Blocking:
        blocking = cls()
        if "blocking" in head:
            blocking.reason, blocking.changes, (execution, seq), inbox, *more = head["blocking"]
            blocking._accepted = execution, seq
            blocking.inbox = Inbox.restore(inbox)
            if more:  # not written by an earlier release
                [(blocking._suspends, blocking._suspends_ahead, reason)] = more
                blocking._suspension = Suspend(reason=reason)
        return blocking
