"""A thread that processes all waiting requests as one batch, for work whose cost does not grow with their number."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

Request = TypeVar("Request")
Answer = TypeVar("Answer")

# Bounds how long the first request of a batch waits for the last.
_LARGEST_BATCH = 1000


class BatchThread(Generic[Request, Answer]):
    """Owns a database connection. Batches are not delayed: requests that arrive during one batch form the next."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], sqlite3.Connection],
        process: Callable[[sqlite3.Connection, Sequence[Request]], Sequence[Answer | Exception]],
    ) -> None:
        self._connect = connect
        self._process = process
        self._waiting: queue.SimpleQueue[tuple[Request, asyncio.Future[Answer]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connected: asyncio.Future[None] | None = None
        #: The number of requests without a result, including those whose callers were cancelled.
        self.unanswered = 0

    async def start(self) -> None:
        """Starts the thread. Raises the error of ``connect``."""
        self._loop = asyncio.get_running_loop()
        self._connected = self._loop.create_future()
        self._thread.start()
        await self._connected

    async def stop(self) -> None:
        """Stops after all requests that were submitted before."""
        if self._thread.is_alive():
            self._waiting.put(None)
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    async def submit(self, request: Request) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.unanswered += 1
        self._waiting.put((request, future))
        return await future

    def _run(self) -> None:
        loop, connected = self._loop, self._connected
        assert loop is not None
        assert connected is not None
        try:
            connection = self._connect()
        except Exception as error:
            # Raised in start().
            loop.call_soon_threadsafe(_settle, [(connected, error)])
            return
        loop.call_soon_threadsafe(_settle, [(connected, None)])
        try:
            while batch := self._take():
                futures = [future for _, future in batch]
                answers: Sequence[Answer | Exception]
                try:
                    answers = self._process(connection, [request for request, _ in batch])
                except Exception as error:
                    # The error of a batch goes to its callers; the thread continues with the next batch.
                    answers = [error] * len(batch)
                loop.call_soon_threadsafe(self._answer, list(zip(futures, answers, strict=True)))
        finally:
            connection.close()

    def _answer(self, outcomes: Sequence[tuple[asyncio.Future[Answer], Answer | Exception]]) -> None:
        self.unanswered -= len(outcomes)
        _settle(outcomes)

    def _take(self) -> list[tuple[Request, asyncio.Future[Answer]]]:
        """Waits for requests and returns them; an empty list means that the thread has to stop."""
        first = self._waiting.get()
        if first is None:
            return []
        batch = [first]
        while len(batch) < _LARGEST_BATCH:
            try:
                following = self._waiting.get_nowait()
            except queue.Empty:
                break
            if following is None:
                self._waiting.put(None)
                break
            batch.append(following)
        return batch


def _settle(outcomes: Sequence[tuple[asyncio.Future[Answer], Answer | Exception]]) -> None:
    for future, answer in outcomes:
        if future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
