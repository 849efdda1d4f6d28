"""The mailboxes of an instance, which keep the events raised under their names, in order, until they are received.

Mail is numbered over all executions. An execution that continues as new passes its mailboxes to the next execution;
the history only records the number of the last mail, and the last received number of each mailbox.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from holdfast.errors import NonDeterminism
from holdfast.orchestration.core.waiting import MAX_WAITING, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.orchestration.core.history import Json, OrchestrationStarted


@dataclass(frozen=True, slots=True)
class Mail:
    """One event in a mailbox; ``number`` is its position among all mail of the instance."""

    number: int
    mailbox: str
    data: Json

    def dump(self) -> dict[str, Any]:
        return {"number": self.number, "mailbox": self.mailbox, "data": self.data}


class _Mailbox(asyncio.Queue[Mail]):
    """An asyncio queue over an existing deque of mail."""

    def __init__(self, waiting: deque[Mail]) -> None:
        self.waiting = waiting
        super().__init__()

    def _init(self, maxsize: int) -> None:
        self._queue = self.waiting


class Mailboxes:
    """One queue per declared mailbox, and one per mailbox that still has mail but is no longer declared."""

    def __init__(
        self,
        names: Iterable[str],
        last: int = 0,
        received: Mapping[str, int] | None = None,
        waiting: Mapping[str, deque[Mail]] | None = None,
    ) -> None:
        self._names = frozenset(names)
        #: The number of the last mail.
        self.last = last
        #: The number of the last received mail of each mailbox.
        self.received: dict[str, int] = dict(received or {})
        # Sorted, so that the behaviour of the code does not depend on the order of a set.
        self._boxes = {name: _Mailbox(deque()) for name in sorted(self._names)}
        self._boxes |= {name: _Mailbox(mail) for name, mail in (waiting or {}).items()}
        #: The calls of the code that wait for mail: the mailbox, and since when.
        self._readers: dict[object, tuple[str, float]] = {}
        #: Mail of this execution that is stored only in its history.
        self._fresh: list[Mail] = []
        self._fresh_size = 0

    @classmethod
    def of(cls, names: Iterable[str], started: OrchestrationStarted) -> Mailboxes:
        """Returns the mailboxes at the start of an execution, restored from its first event."""
        waiting: dict[str, deque[Mail]] = {}
        for mail in started.unread or ():
            waiting.setdefault(mail["mailbox"], deque()).append(Mail(**mail))
        mark = started.mail or {"last": 0, "received": {}}
        return cls(names, mark["last"], mark["received"], waiting)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def put(self, mailbox: str, data: Json) -> None:
        """Adds mail. Raises NonDeterminism when the mailbox is no longer declared, because no mail may be lost."""
        self.check_declares(mailbox)
        self._boxes[mailbox].put_nowait(self._add(mailbox, data))

    async def take(self, mailbox: str, now: float) -> Mail:
        """Waits for the oldest unread mail of a mailbox and marks it as received."""
        reader = object()
        self._readers[reader] = (mailbox, now)
        try:
            mail = await self._boxes[mailbox].get()
        finally:
            del self._readers[reader]
        self.received[mailbox] = mail.number
        return mail

    def awaited(self) -> list[Waiting]:
        """Returns the mailboxes that the code waits for, up to the number that is shown."""
        readers = islice(self._readers.values(), MAX_WAITING)
        return [Waiting("mailbox", mailbox, since) for mailbox, since in readers]

    def mark(self) -> dict[str, Any] | None:
        """Returns the last number and the received numbers, for the history; None if there never was any mail."""
        return {"last": self.last, "received": dict(self.received)} if self.last else None

    def waiting(self) -> list[Mail]:
        """Returns the unread mail in the order it was raised."""
        return sorted((mail for box in self._boxes.values() for mail in box.waiting), key=attrgetter("number"))

    def check_declares(self, mailbox: str) -> None:
        """Raises NonDeterminism when this mailbox is not declared."""
        if mailbox not in self._names:
            raise undeclared_mailbox(mailbox)

    def check_declared(self) -> None:
        """Raises NonDeterminism when an undeclared mailbox has unread mail, because no mail may be lost."""
        for name, box in self._boxes.items():
            if name not in self._names and box.waiting:
                raise undeclared_mailbox(name)

    @property
    def empty(self) -> bool:
        return not any(box.waiting for box in self._boxes.values())

    def hand_on(self, names: Iterable[str], late: Iterable[tuple[str, Json]]) -> tuple[Mailboxes, list[Mail]]:
        """Returns the mailboxes of the next execution, and their mail that is stored only in this one's history.

        ``late`` is recorded mail that was not applied before the code continued as new. The queues are reused, not
        copied.
        """
        waiting = {name: box.waiting for name, box in self._boxes.items()}
        for mailbox, data in late:
            waiting.setdefault(mailbox, deque()).append(self._add(mailbox, data))
        following = Mailboxes(names, self.last, self.received, {name: mail for name, mail in waiting.items() if mail})
        return following, self.take_fresh(0)

    def take_fresh(self, above: int) -> list[Mail]:
        """Returns, once, unread mail stored only in this execution's history, if it has more than ``above`` bytes."""
        if not self._fresh or self._fresh_size <= above:
            return []
        fresh, self._fresh, self._fresh_size = self._fresh, [], 0
        return [mail for mail in fresh if mail.number > self.received.get(mail.mailbox, 0)]

    def _add(self, mailbox: str, data: Json) -> Mail:
        self.last += 1
        mail = Mail(self.last, mailbox, data)
        self._fresh.append(mail)
        self._fresh_size += len(data)
        return mail


def undeclared_mailbox(mailbox: str, line: str | None = None) -> NonDeterminism:
    """Returns the error for a mailbox that the code no longer declares; ``line`` is where the code uses it."""
    return NonDeterminism(
        f"The orchestration no longer declares the mailbox {mailbox}, which it uses. "
        f"Declare it again: @app.orchestration(mailboxes=[{mailbox!r}]), or give changed code a new version.",
        kind="undeclared_mailbox",
        expected=f"the mailbox {mailbox}",
        found=f"no mailbox {mailbox}",
        line=line,
    )
