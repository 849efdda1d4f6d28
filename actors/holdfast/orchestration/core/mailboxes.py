"""The mailboxes of an instance, which keep the events raised under their names, in order, until they are received.

Requests are kept in the same way, in boxes of their own (:mod:`.box_keys`): a request is mail with an id.

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

from holdfast.orchestration.core.blocking_errors import undeclared_box
from holdfast.orchestration.core.box_keys import is_returned, request_box, requested
from holdfast.orchestration.core.unread import Unread
from holdfast.orchestration.core.waiting import MAX_WAITING, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.orchestration.core.history import Json, OrchestrationStarted


@dataclass(frozen=True, slots=True)
class Mail:
    """One event in a mailbox, or a request; ``number`` is its position among all mail of the instance."""

    number: int
    mailbox: str
    data: Json
    #: The id of a request.
    request_id: str | None = None

    def dump(self) -> dict[str, Any]:
        dumped: dict[str, Any] = {"number": self.number, "mailbox": self.mailbox, "data": self.data}
        return dumped if self.request_id is None else dumped | {"request_id": self.request_id}


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
        unread: Unread | None = None,
    ) -> None:
        self._names = frozenset(names)
        #: The number of the last mail.
        self.last = last
        #: The number of the last received mail of each mailbox.
        self.received: dict[str, int] = dict(received or {})
        # Sorted, so that the behaviour of the code does not depend on the order of a set.
        self._boxes = {name: _Mailbox(deque()) for name in sorted(self._names)}
        self._boxes |= {name: _Mailbox(mail) for name, mail in (waiting or {}).items()}
        waiting_mail = (mail.data for box in self._boxes.values() for mail in box.waiting)
        self.unread = Unread.of(waiting_mail) if unread is None else unread
        #: The calls of the code that wait for mail: the mailbox, and since when.
        self._readers: dict[object, tuple[str, float]] = {}
        #: Whether this execution has received anything that no earlier execution has received.
        self.has_received = False
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

    def has_unread(self, mailbox: str) -> bool:
        return mailbox in self._boxes and not self._boxes[mailbox].empty()

    def put(self, mailbox: str, data: Json, request_id: str | None = None) -> None:
        """Adds mail. Raises NonDeterminism when the mailbox is no longer declared, because no mail may be lost."""
        self.check_declares(mailbox)
        self._boxes[mailbox].put_nowait(self._add(mailbox, data, request_id))

    async def take(self, mailbox: str, now: float) -> Mail:
        """Waits for the oldest unread mail of a mailbox and marks it as received."""
        reader = object()
        self._readers[reader] = (mailbox, now)
        try:
            mail = await self._boxes[mailbox].get()
        finally:
            del self._readers[reader]
        self.received[mailbox] = mail.number
        if mail.request_id is None:
            self.unread.remove(mail.data)
        self.has_received = self.has_received or not is_returned(mailbox)
        return mail

    def awaited(self) -> list[Waiting]:
        """Returns the mailboxes and the requests that the code waits for, up to the number that is shown."""
        readers = islice(self._readers.values(), MAX_WAITING)
        return [
            Waiting("mailbox", box, since) if (name := requested(box)) is None else Waiting("request", name, since)
            for box, since in readers
        ]

    def mark(self) -> dict[str, Any] | None:
        """Returns the last number and the received numbers, for the history; None if there never was any mail."""
        return {"last": self.last, "received": dict(self.received)} if self.last else None

    def waiting(self) -> list[Mail]:
        """Returns the unread mail in the order it was raised."""
        return sorted((mail for box in self._boxes.values() for mail in box.waiting), key=attrgetter("number"))

    def check_declares(self, mailbox: str) -> None:
        """Raises NonDeterminism when this mailbox is not declared."""
        if not self._is_declared(mailbox):
            raise undeclared_box(mailbox)

    def check_declared(self) -> None:
        """Raises NonDeterminism when an undeclared mailbox has unread mail, because no mail may be lost."""
        for name, box in self._boxes.items():
            if box.waiting and not self._is_declared(name):
                raise undeclared_box(name)

    @property
    def empty(self) -> bool:
        return not any(box.waiting for box in self._boxes.values())

    def hand_on(
        self, names: Iterable[str], late: Iterable[tuple[str, Json, str | None]]
    ) -> tuple[Mailboxes, list[Mail]]:
        """Returns the mailboxes of the next execution, and their mail that is stored only in this one's history.

        ``late`` is recorded mail that was not applied before the code continued as new, and requests that were not
        answered: their boxes, data and ids. The queues are reused, not copied.
        """
        waiting = {name: box.waiting for name, box in self._boxes.items()}
        for mailbox, data, request_id in late:
            waiting.setdefault(mailbox, deque()).append(self._add(mailbox, data, request_id))
        waiting = {name: mail for name, mail in waiting.items() if mail}
        following = Mailboxes(names, self.last, self.received, waiting, self.unread)
        return following, self.take_fresh(0)

    def take_fresh(self, above: int) -> list[Mail]:
        """Returns, once, unread mail stored only in this execution's history, if it has more than ``above`` bytes."""
        if not self._fresh or self._fresh_size <= above:
            return []
        fresh, self._fresh, self._fresh_size = self._fresh, [], 0
        return [mail for mail in fresh if mail.number > self.received.get(mail.mailbox, 0)]

    def _is_declared(self, box: str) -> bool:
        name = requested(box)
        return (box if name is None else request_box(name)) in self._names

    def _add(self, mailbox: str, data: Json, request_id: str | None) -> Mail:
        self.last += 1
        mail = Mail(self.last, mailbox, data, request_id)
        self._fresh.append(mail)
        self._fresh_size += len(data)
        return mail
