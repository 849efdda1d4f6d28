"""Timers that die with the life of the actor that started them."""

from __future__ import annotations

from holdfast.runtime.serialization import dump, load

_MARK = "@"


def mark(timer: bytes, life: str) -> bytes:
    """The SDK's request for a timer, with the life that asked for it."""
    request = load(timer)
    request["callback"] = f"{request['callback']}{_MARK}{life}"
    return dump(request)


def unmark(body: bytes) -> tuple[bytes, str]:
    """What daprd sends when a timer fires, as the SDK expects it, and the life it belongs to, if it was marked."""
    fired = load(body)
    fired["callback"], _, life = str(fired.get("callback", "")).partition(_MARK)
    return dump(fired), life
