"""Answers over gRPC: each is sent within a time, and a tenant has only so much in memory that its callers do not read.

gRPC copies a message, keeps it until the caller has read it or is gone, and cannot drop it before.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Sequence

    import grpc.aio

#: The limit for the unread bytes of a tenant. Tenants that have some at the same time share it.
MAX_UNREAD = 32 * 1024 * 1024
# Smaller answers do not count: there can be one for each call that gRPC serves at once.
_SMALL = 16 * 1024


class Reply(NamedTuple):
    """The answer to a call, as it is sent."""

    message: bytes
    metadata: Sequence[tuple[str, str]]
    tenant: str


class Answers:
    """Sends answers. ``seconds`` is the time in which one must be read."""

    def __init__(self, seconds: float, most: int = MAX_UNREAD) -> None:
        self._seconds = seconds
        self._most = most
        self._unread: dict[str, int] = {}

    def check(self, tenant: str, size: int = 0) -> None:
        """Raises RateLimited when this much more would be too much for the tenant. One answer always has room."""
        unread = self._unread.get(tenant, 0)
        if unread and unread + size > self._most // len(self._unread):
            raise RateLimited(
                f"{unread:,} bytes of answers to this tenant over gRPC are unread. Read them first.", retry_after=1
            )

    async def send(self, reply: Reply, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Sends an answer. Raises TimeoutError when it is not read in time, and RateLimited."""
        async with asyncio.timeout(self._seconds):
            if len(reply.message) > _SMALL:
                self.check(reply.tenant, len(reply.message))
            if reply.metadata:
                await context.send_initial_metadata(tuple(reply.metadata))
            if len(reply.message) <= _SMALL:
                await context.write(reply.message)
            else:
                # Shielded: cancelled, it would not free the memory, and nobody would know when it is free.
                await asyncio.shield(self._write(reply, context))

    def _write(self, reply: Reply, context: grpc.aio.ServicerContext[Any, Any]) -> asyncio.Future[None]:
        size, tenant = len(reply.message), reply.tenant
        self._unread[tenant] = self._unread.get(tenant, 0) + size

        def written(write: asyncio.Future[None]) -> None:
            self._unread[tenant] -= size
            if not self._unread[tenant]:
                del self._unread[tenant]
            if not write.cancelled():
                # Read, because it may fail after the call has ended: the caller is gone.
                write.exception()

        write: asyncio.Future[None] = asyncio.ensure_future(context.write(reply.message))
        write.add_done_callback(written)
        return write
