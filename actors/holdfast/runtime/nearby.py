"""Actors that placement has put into this very process.

They are found by trying: of N processes, about one id in N is at home here.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient

#: How one knows this process: what an actor's ``Where`` answers that runs here.
PROCESS = secrets.token_hex(8)
_TRIES = 50


async def is_nearby(client: HostClient, actor_type: str, actor_id: str) -> bool:
    return bool(load(await client.invoke_method(actor_type, actor_id, "Where")) == PROCESS)


async def find_nearby(client: HostClient, actor_type: str) -> str | None:
    """An id that nobody had before; None when none was found that is at home here."""
    for _ in range(_TRIES):
        candidate = secrets.token_hex(8)
        if await is_nearby(client, actor_type, candidate):
            return candidate
    return None
