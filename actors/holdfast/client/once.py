"""Messages whose effect happens once, however often they are delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from holdfast.client.idempotency import IdempotencyCalls, run_once
from holdfast.idempotency.record import MAX_LEASE, MAX_RETENTION

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.client.answers import Message
    from holdfast.client.connection import Connection
    from holdfast.client.consumer import Handler
    from holdfast.client.idempotency import Outcome

KeyOf: TypeAlias = "Callable[[Message], str | None]"


@dataclass(frozen=True)
class Idempotency:
    """How :meth:`Queue.consume` tells that a message was handled before."""

    #: What a message is known by. When left out, the ``idempotency_key`` it was pushed with. One that has none is
    #: just handled.
    key: KeyOf | None = None
    #: Whose keys they are. When left out, the ``tenant_id`` a message was pushed with, or the client's own.
    tenant_id: str | None = None
    #: How long others wait when this process dies. The lease is renewed while the handler runs.
    lease_seconds: int = 30
    #: How long it is remembered that a message was handled: a day when left out.
    retention_seconds: int | None = None
    #: How long to wait when somebody else handles a message with this key. It is given back then, and comes again when
    #: that one's lease is over.
    wait_seconds: float = 60.0

    def __post_init__(self) -> None:
        # At once: found out with the first messages, they would be given back until they are dead letters.
        if not 1 <= self.lease_seconds <= MAX_LEASE or self.wait_seconds < 0:
            raise ValueError(f"lease_seconds must be 1 to {MAX_LEASE}, and wait_seconds at least 0")
        if self.retention_seconds is not None and not 1 <= self.retention_seconds <= MAX_RETENTION:
            raise ValueError(f"retention_seconds must be 1 to {MAX_RETENTION}")


#: ``True`` is the key of the message and all else as it comes, a function is the key.
Asked: TypeAlias = "Idempotency | KeyOf | bool"


def once(connection: Connection, handler: Handler, asked: Asked) -> Handler:
    """The handler, unless it has handled a message with the same key: then nothing."""
    if asked is False:
        return handler
    how = asked if isinstance(asked, Idempotency) else Idempotency(None if asked is True else asked)

    async def handle(message: Message) -> object:
        key = message.idempotency_key if how.key is None else how.key(message)
        if not key:
            return await handler(message)
        outcome: Outcome[object] = await run_once(
            IdempotencyCalls(connection, how.tenant_id or message.tenant_id, key),
            lambda: handler(message),
            lease_seconds=how.lease_seconds,
            retention_seconds=how.retention_seconds,
            wait_seconds=how.wait_seconds,
        )
        return outcome.result

    return handle
