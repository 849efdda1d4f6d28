"""Limits for the messages of Dapr's gRPC API, checked before a message is parsed.

Parsing takes time and memory for each field, whatever its size: 16 MiB of empty ones take a second.
"""

from __future__ import annotations

from holdfast.gateway.dapr_api.grpc_errors import CallFailed
from holdfast.gateway.middleware.body_limits import MAX_CALL
from holdfast.runtime.in_process.transactions import MAX_OPERATIONS

#: The calls that may have a body of 16 MiB.
_WITH_BODY = frozenset({"InvokeActor", "InvokeService"})
# The names and metadata around the payload.
_ENVELOPE = 64 * 1024
_MAX_FIELDS = 1000


def check_message(name: str, message: bytes) -> None:
    """Raises CallFailed for the message of a call that is too large, or has too many fields."""
    if name not in _WITH_BODY and len(message) > MAX_CALL + _ENVELOPE:
        raise CallFailed("RESOURCE_EXHAUSTED", f"The message of {name} may have at most {MAX_CALL // 1024} KiB.")
    most = _MAX_FIELDS + (MAX_OPERATIONS if name == "ExecuteActorStateTransaction" else 0)
    if len(message) > 2 * most and _has_more_fields(message, most):
        raise CallFailed("INVALID_ARGUMENT", f"The message of {name} has more than {most:,} fields.")


def _has_more_fields(message: bytes, most: int) -> bool:
    """Returns whether there are more than ``most`` fields, not counting those within fields."""
    place = 0
    for _ in range(most):
        if place >= len(message):
            return False
        tag, place = _varint(message, place)
        match tag & 7:
            case 0:  # a number
                _, place = _varint(message, place)
            case 1:  # 64 bits
                place += 8
            case 2:  # bytes, a string or a message
                length, place = _varint(message, place)
                place += length
            case 5:  # 32 bits
                place += 4
            case _:
                # A group, which no message of this API has, or no protobuf.
                return True
    return place < len(message)


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Returns the number that begins at ``place``, and where it ends."""
    value = shift = 0
    while place < len(message):
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return value, place
