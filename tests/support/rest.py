"""Queues as any HTTP client sees them."""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
from yarl import URL

from tests.support.stacks.base import CallFailed

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from types import TracebackType

    from tests.support.stacks.served import ServedStack

Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    def ok(self) -> Any:
        """The body of an answer that is 200."""
        assert self.status == 200, f"{self.status}: {self.text[:2000]!r}"
        return self.body

    def refused(self, status: int, error_code: str) -> dict[str, Any]:
        """The body of a refusal: always flat, always with a sentence and a code."""
        assert self.status == status, f"{self.status}: {self.text[:2000]!r}"
        body: dict[str, Any] = self.body
        assert self.headers["Content-Type"] == "application/json"
        assert body["success"] is False
        assert body["error_code"] == error_code
        assert isinstance(body["message"], str)
        assert body["message"]
        assert "detail" not in body
        for value in body.values():
            # Flat: a list of ids is the most that is in it.
            assert not isinstance(value, dict)
            assert not isinstance(value, list) or all(isinstance(entry, str) for entry in value)
        return body

    def refused_for_now(self, status: int, error_code: str) -> dict[str, Any]:
        """The same for a refusal that says when to try again, in whole seconds."""
        body = self.refused(status, error_code)
        assert int(self.headers["Retry-After"]) >= 1
        return body


class Server:
    """A stack's REST interface, for one test: its queue is named after it."""

    def __init__(self, stack: ServedStack, name: str, port: int | None = None) -> None:
        self.stack: Any = stack
        self.name = name
        self.tenant: str | None = None
        self._port = port
        self._session: aiohttp.ClientSession | None = None
        self._background: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=90)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def of(self, tenant: str) -> Server:
        """The same, for a caller of this tenant."""
        other = copy.copy(self)
        other.tenant = tenant
        return other

    def begin(self, call: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Makes a call in the background; it ends with the test."""
        task = asyncio.create_task(call)
        self._background.append(task)
        return task

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port or self.stack.app_port}"

    async def request(
        self,
        verb: str,
        path: str,
        body: bytes | Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The path is sent as it is; a body is sent without a content type. CallFailed when there is no answer."""
        assert self._session is not None
        url = URL(f"{self.url}{path}", encoded=True)
        if query:
            url = url.update_query({name: _written(value) for name, value in query.items()})
        skip = None if headers else ("Content-Type",)
        if self.tenant is not None:
            headers = {"Holdfast-Tenant": self.tenant, **(headers or {})}
        try:
            async with self._session.request(verb, url, data=body, headers=headers, skip_auto_headers=skip) as response:
                answer = Answer(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            raise CallFailed("UNREACHABLE", repr(error)) from error
        # Answers must not contain qualified names.
        assert self.tenant is None or f"@{self.tenant}".encode() not in answer.text, answer.text
        return answer

    def queue(self, suffix: str = "") -> Queue:
        """A queue that belongs to this test."""
        return Queue(self, self.name + (f"-{suffix}" if suffix else ""))


class Queue:
    """The calls of one queue."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name

    @property
    def actor_id(self) -> str:
        tenant = self.server.tenant
        return self.name if tenant is None else f"@{tenant}@{self.name}"

    async def send(self, call: str, body: Any) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.server.request("POST", f"/queue/{self.name}/{call}", data)

    async def push(self, item: Any, **fields: Any) -> Answer:
        return await self.send("push", {"item": item, **fields})

    async def push_many(self, *items: Any, **fields: Any) -> Answer:
        return await self.send("push", {"items": [{"item": item, **fields} for item in items]})

    async def pop(self, **query: Any) -> Answer:
        return await self.server.request("POST", f"/queue/{self.name}/pop", query=query)

    async def lock(self, **query: Any) -> Any:
        """Pops under a lock, and returns the answer. The pop must return items."""
        taken = (await self.pop(require_ack=True, **query)).ok()
        assert taken["locked"] is True
        return taken

    async def acknowledge(self, lock_id: str) -> Answer:
        return await self.send("acknowledge", {"lock_id": lock_id})

    async def abandon(self, lock_id: str, **fields: Any) -> Answer:
        return await self.send("abandon", {"lock_id": lock_id, **fields})

    async def extend(self, lock_id: str, **fields: Any) -> Answer:
        return await self.send("extend-lock", {"lock_id": lock_id, **fields})

    async def dead_letter(self, lock_id: str, **fields: Any) -> Answer:
        return await self.send("dead-letter", {"lock_id": lock_id, **fields})

    async def complete(self, *ids: str) -> Answer:
        return await self.send("complete", {"ids": ids})

    async def revoke(self, item_id: str) -> Answer:
        return await self.server.request("DELETE", f"/queue/{self.name}/items/{quote(item_id, safe='')}")

    async def requeue(self, lock_id_prefix: str, **fields: Any) -> Answer:
        return await self.send(f"in-flight/{lock_id_prefix}/requeue", fields)

    async def extend_for(self, lock_id_prefix: str, **fields: Any) -> Answer:
        return await self.send(f"in-flight/{lock_id_prefix}/extend", fields)

    async def redrive(self, **fields: Any) -> Answer:
        return await self.send("redrive", fields)

    async def dead_letters(self, limit: int = 100) -> list[Any]:
        """All of them, page by page."""
        letters: list[Any] = []
        query: dict[str, Any] = {"limit": limit}
        while True:
            page = (await self.get("/dead-letters", **query)).ok()
            assert len(page["dead_letters"]) <= limit
            letters += page["dead_letters"]
            if "next_cursor" not in page:
                return letters
            query["cursor"] = page["next_cursor"]

    async def stats(self) -> Any:
        return (await self.get("")).ok()

    async def peek(self, **query: Any) -> Any:
        return (await self.get("/peek", **query)).ok()

    async def in_flight(self) -> Any:
        return (await self.get("/in-flight")).ok()["locks"]

    async def purge(self) -> Answer:
        return await self.server.request("DELETE", f"/queue/{self.name}/items")

    async def config(self) -> Any:
        return (await self.get("/config")).ok()

    async def configure(self, **changes: Any) -> Answer:
        return await self.server.request("PUT", f"/queue/{self.name}/config", json.dumps(changes).encode())

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.server.request("GET", f"/queue/{self.name}{path}", query=query)

    async def drain(self) -> list[Any]:
        """Takes everything that waits, in order."""
        return [item for item, _ in await self.drain_messages()]

    async def drain_messages(self) -> list[tuple[Any, Any]]:
        """The same, with what is known of each."""
        taken: list[tuple[Any, Any]] = []
        while (answer := (await self.pop(count=100)).ok())["count"]:
            taken += zip(answer["items"], answer["messages"], strict=True)
        return taken

    async def stored(self) -> dict[str, Any]:
        """Returns the queue's stored values, read past the server, with the segments that are in the metadata."""
        stored: dict[str, Any] = await self.server.stack.stored("PushPopActor", self.actor_id)
        inline = stored.get("metadata", {}).get("_segments", {})
        return stored | {key: {"items": items} for key, items in inline.items()}

    async def locked_in_store(self) -> bool:
        """Returns whether a lock is stored, without a call that could process its expiry."""
        return "_active_lock" in (await self.stored())["metadata"]


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
