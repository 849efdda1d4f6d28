"""The Python client of a Holdfast server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from holdfast.client import answers
from holdfast.client.answers import Completion, DeadLetter, LockInfo, Message, QueueStats, QueueSummary
from holdfast.client.batch import Batch
from holdfast.client.calls import list_queues
from holdfast.client.connection import Connection
from holdfast.client.queue import Queue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

__all__ = [
    "Batch",
    "Client",
    "Completion",
    "DeadLetter",
    "LockInfo",
    "Message",
    "Queue",
    "QueueStats",
    "QueueSummary",
]


class Client:
    """A connection to a server: ``async with Client("http://127.0.0.1:8080") as client``.

    ``timeout`` is how many seconds one request may take, not counting what it was asked to wait. What is safe to
    repeat is repeated up to ``retries`` times when the server cannot be reached or asks for it.

    Every refusal is an error of ``holdfast.errors``, with the ``error_code`` of the answer. ``ConnectionFailed``
    means that nothing was sent; ``AnswerLost`` that it may have been done.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 30.0, retries: int = 8) -> None:
        self._connection = Connection(url, token=token, timeout=timeout, retries=retries)

    def queue(self, name: str) -> Queue:
        """A queue by its name; nothing is asked of the server yet."""
        return Queue(self._connection, name)

    async def queues(self, *, page_size: int = 50) -> AsyncIterator[QueueSummary]:
        """The queues there are, by name."""
        cursor: str | None = None
        while True:
            page = await list_queues(self._connection, page_size, cursor)
            for queue in page["queues"]:
                yield answers.summary(queue)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def __aenter__(self) -> Self:
        await self._connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()
