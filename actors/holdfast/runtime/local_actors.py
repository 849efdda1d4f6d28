"""Finds actor ids that placement maps to this process.

By trying: with N processes, about one id in N is placed here.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient

#: Identifies this process: the reply of ``ProcessId`` by an actor that runs here.
PROCESS_ID = secrets.token_hex(8)
_TRIES = 50


async def is_local(client: HostClient, actor_type: str, actor_id: str) -> bool:
    return bool(load(await client.invoke_method(actor_type, actor_id, "ProcessId")) == PROCESS_ID)


async def find_local(client: HostClient, actor_type: str) -> str | None:
    """Returns a new id that is placed in this process, or None if none was found."""
    for _ in range(_TRIES):
        candidate = secrets.token_hex(8)
        if await is_local(client, actor_type, candidate):
            return candidate
    return None
