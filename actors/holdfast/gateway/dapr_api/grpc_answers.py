"""Answers over gRPC: each is sent within a time, and a tenant has only so much in memory that its callers do not read.

gRPC copies a message, keeps it until the caller has read it or is gone, and cannot drop it before.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import RateLimited
from holdfast.gateway.dapr_api.grpc_errors import CallFailed

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

    def check(self, tenant: str) -> None:
        """Raises RateLimited when the tenant has too much that is unread. Call it before a call is carried out."""
        if not self._has_room(tenant):
            raise RateLimited(f"{self._held(tenant)} Read them first.", retry_after=1)

    async def send(self, reply: Reply, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Sends an answer. Raises CallFailed when it is not read in time, or the tenant has too much that is unread."""
        if len(reply.message) > _SMALL and not self._has_room(reply.tenant, len(reply.message)):
            # Not RESOURCE_EXHAUSTED, after which a client may call again: this call has been carried out.
            details = f"The call was carried out, but its answer was dropped: {self._held(reply.tenant)}"
            raise CallFailed("UNKNOWN", details)
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(reply, context)
        except TimeoutError as error:
            details = "The answer was not read in time and was dropped."
            raise CallFailed("DEADLINE_EXCEEDED", details) from error

    async def _send(self, reply: Reply, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if reply.metadata:
            await context.send_initial_metadata(tuple(reply.metadata))
        if len(reply.message) <= _SMALL:
            await context.write(reply.message)
        else:
            # Shielded: cancelled, it would not free the memory, and the time when it is free would be unknown.
            await asyncio.shield(self._write(reply, context))

    def _has_room(self, tenant: str, size: int = 0) -> bool:
        """Returns whether an answer of this size has room. One always has."""
        unread = self._unread.get(tenant, 0)
        return not unread or unread + size <= self._most // len(self._unread)

    def _held(self, tenant: str) -> str:
        return f"{self._unread.get(tenant, 0):,} bytes of answers to this tenant over gRPC are unread."

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
