"""Parses the state transactions of Dapr's actor API as daprd does."""

from __future__ import annotations

import re
from typing import Any

from holdfast.runtime.actor_api.shapes import Malformed, object_in
from holdfast.runtime.in_process.storage import Write
from holdfast.runtime.serialization import dump

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z")
_LONGEST_TTL = 2**31 - 1
#: The most operations in one transaction: the event loop waits until all of them are parsed.
MAX_OPERATIONS = 10_000


def parse_transaction(operations: Any) -> list[Write]:
    """Returns the writes. Raises Malformed, or ValueError with daprd's message for an error that it finds on saving."""
    return [_parse(operation) for operation in check_shape(operations)]


def check_shape(operations: Any) -> list[dict[str, Any]]:
    """Returns the operations; a missing one is empty, as in Go."""
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise Malformed("a transaction is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise Malformed(f"a transaction has at most {MAX_OPERATIONS} operations")
    checked = [{} if operation is None else operation for operation in operations]
    for operation in checked:
        if not isinstance(operation, dict) or not isinstance(operation.get("operation") or "", str):
            raise Malformed("an operation is an object with the name of an operation")
    return checked


def _parse(operation: dict[str, Any]) -> Write:
    request, kind = operation.get("request"), operation.get("operation")
    if request is None:
        raise ValueError("request data is empty")
    if not kind:
        raise ValueError("operation is empty")
    if kind not in ("upsert", "delete"):
        raise ValueError(f"operation type {kind} not supported")
    if not isinstance(request, dict) or not isinstance(request.get("key", ""), str):
        raise ValueError("a request is an object with a key")
    if not request.get("key"):
        raise ValueError("missing key")
    if not isinstance(etag := request.get("etag"), str | None):
        raise ValueError("an etag is a string")
    if etag:
        # No call returns the etag of a value, so this one cannot be the current one.
        raise ValueError("possible etag mismatch. error from state store")
    if kind == "delete":
        return Write(request["key"], None)
    value, ttl = request.get("value"), _ttl(object_in(request, "metadata"))
    if isinstance(value, bytes):  # of the gRPC API
        return Write(request["key"], value, ttl, binary=True)
    return Write(request["key"], dump(value), ttl)


def _ttl(metadata: dict[str, Any]) -> int | None:
    if not all(isinstance(value, str | None) for value in metadata.values()):
        raise ValueError("metadata are strings")
    text = metadata.get("ttlInSeconds")
    if not text:
        return None
    wrong = f"error parsing TTL: incorrect value for metadata 'ttlInSeconds': {text}"
    if not _INTEGER.match(text):
        raise ValueError(wrong)
    seconds = int(text)
    if not -1 <= seconds <= _LONGEST_TTL:
        raise ValueError(wrong)
    return seconds if seconds > 0 else None
