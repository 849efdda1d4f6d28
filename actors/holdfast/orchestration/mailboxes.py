"""The mailboxes of an execution: what was raised under their names, in order, until it is received."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.orchestration.history import Json


@dataclass(frozen=True, slots=True)
class Mail:
    """One message; ``number`` is its place among all of the execution."""

    number: int
    mailbox: str
    data: Json


class Mailboxes:
    """A queue for each name that the orchestration declares."""

    def __init__(self, names: Iterable[str]) -> None:
        self._boxes: dict[str, asyncio.Queue[Mail]] = {name: asyncio.Queue() for name in names}
        self._numbers = 0

    def __contains__(self, name: object) -> bool:
        return name in self._boxes

    def put(self, mailbox: str, data: Json) -> None:
        self._numbers += 1
        self._boxes[mailbox].put_nowait(Mail(self._numbers, mailbox, data))

    async def take(self, mailbox: str) -> Json:
        return (await self._boxes[mailbox].get()).data

    def fill(self, unread: Iterable[dict[str, Any]]) -> None:
        """With what :meth:`empty` gave to the execution before this one."""
        for mail in unread:
            # A mailbox that is no longer declared has nobody who could read it.
            if mail["mailbox"] in self._boxes:
                self.put(mail["mailbox"], mail["data"])

    def empty(self) -> list[dict[str, Any]]:
        """What nobody has received, in the order it was raised in."""
        found = [box.get_nowait() for box in self._boxes.values() for _ in range(box.qsize())]
        return [{"mailbox": mail.mailbox, "data": mail.data} for mail in sorted(found, key=attrgetter("number"))]
