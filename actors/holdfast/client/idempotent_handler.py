"""Wraps a queue handler so that it runs once for each idempotency key, however often messages are delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from holdfast.client.idempotency import IdempotencyCalls, run_once
from holdfast.idempotency.record import MAX_LEASE, MAX_RETENTION

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.client.api.connection import Connection
    from holdfast.client.consumer import Handler
    from holdfast.client.idempotency import Outcome
    from holdfast.client.models import Message

KeyOf: TypeAlias = "Callable[[Message], str | None]"


@dataclass(frozen=True)
class Idempotency:
    """The idempotency settings of :meth:`Queue.consume`."""

    #: Returns the key of a message. Default: the ``idempotency_key`` it was pushed with. A message without a key is
    #: handled each time it is delivered.
    key: KeyOf | None = None
    #: The tenant the keys belong to. Default: the ``tenant_id`` the message was pushed with, or the client's tenant.
    tenant_id: str | None = None
    #: How long other consumers wait if this process dies. The lease is renewed while the handler runs.
    lease_seconds: int = 30
    #: How long the record of a handled message is kept. Default: a day.
    retention_seconds: int | None = None
    #: How long to wait while another consumer handles a message with this key. After that the message is abandoned,
    #: and redelivered when the other consumer's lease has expired.
    wait_seconds: float = 60.0

    def __post_init__(self) -> None:
        # Checked here: if each message failed on it, they would all end as dead letters.
        if not 1 <= self.lease_seconds <= MAX_LEASE or self.wait_seconds < 0:
            raise ValueError(f"lease_seconds must be 1 to {MAX_LEASE}, and wait_seconds at least 0")
        if self.retention_seconds is not None and not 1 <= self.retention_seconds <= MAX_RETENTION:
            raise ValueError(f"retention_seconds must be 1 to {MAX_RETENTION}")


#: ``True`` stands for ``Idempotency()``, a function for ``Idempotency(key=function)``.
Asked: TypeAlias = "Idempotency | KeyOf | bool"


def idempotent_handler(connection: Connection, handler: Handler, asked: Asked) -> Handler:
    """Returns a handler that calls ``handler`` only for keys that were not handled before."""
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
