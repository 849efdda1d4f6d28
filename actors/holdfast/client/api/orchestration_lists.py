"""The calls of the REST interface that find instances, and act on all that match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.client.api.connection import Repeat
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.client.api.connection import Connection

Answer = dict[str, Any]


async def list_runs(
    connection: Connection,
    selected: Mapping[str, Any],
    limit: int,
    cursor: str | None,
    order: str = "newest",
    *,
    waiting: bool = False,
) -> Answer:
    """Returns one page of instances."""
    params = {**selected, "order": order, "limit": limit, **({} if cursor is None else {"cursor": cursor})}
    if waiting:
        params["waiting"] = "true"
    return await connection.call("GET", "orchestrations", params=params, repeat=Repeat.ALWAYS)


async def count_runs(connection: Connection, name: str | None) -> Answer:
    """Returns the numbers of instances by status and name."""
    params = {} if name is None else {"name": name}
    return await connection.call("GET", "orchestrations/counts", params=params, repeat=Repeat.ALWAYS)


async def act_on_runs(connection: Connection, body: Mapping[str, Any], limit: int, cursor: str | None) -> Answer:
    """Acts on one page of instances."""
    sent = dump({**body, "limit": limit, **({} if cursor is None else {"cursor": cursor})})
    # Not repeated: what was done already would be counted as failed, and an event would be raised twice.
    return await connection.call("POST", "orchestrations/bulk", body=sent, repeat=Repeat.UNLESS_SENT)
