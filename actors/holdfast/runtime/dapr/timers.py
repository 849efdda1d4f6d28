"""Marks timers with the activation that started them, so that they end with it."""

from __future__ import annotations

from holdfast.runtime.serialization import dump, load

_MARK = "@"


def mark(timer: bytes, activation_id: str) -> bytes:
    """Adds the activation id to the SDK's request for a timer."""
    request = load(timer)
    request["callback"] = f"{request['callback']}{_MARK}{activation_id}"
    return dump(request)


def unmark(body: bytes) -> tuple[bytes, str]:
    """Returns the body of a fired timer as the SDK expects it, and the activation id, if it was marked."""
    fired = load(body)
    # daprd leaves out the data of a timer without any, which the SDK (1.18.3) requires.
    fired.setdefault("data", None)
    fired["callback"], _, activation_id = str(fired.get("callback", "")).partition(_MARK)
    return dump(fired), activation_id
