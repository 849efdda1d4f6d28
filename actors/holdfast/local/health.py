"""Probes whether a server on loopback is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_ONE_QUESTION = aiohttp.ClientTimeout(total=2.0)


def answers_ok(url: str) -> Callable[[], Awaitable[bool]]:
    """Returns a probe that succeeds when `url` responds with a 2xx status."""

    async def probe() -> bool:
        return await _ask(url) is not None

    return probe


async def read_json(url: str) -> Any:
    """Returns the JSON response of `url`, or None without a response, a 2xx status or JSON."""
    return await _ask(url, as_json=True)


async def _ask(url: str, *, as_json: bool = False) -> Any:
    try:
        async with aiohttp.ClientSession(timeout=_ONE_QUESTION) as session, session.get(url) as answer:
            if not answer.ok:
                return None
            return await answer.json(content_type=None) if as_json else True
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
