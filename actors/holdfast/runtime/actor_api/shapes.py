"""Shape checks for the bodies of Dapr's actor API."""

from __future__ import annotations

from typing import Any


class Malformed(ValueError):
    """Raised when JSON does not have the expected shape."""


def object_in(container: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns the object of this name; a missing one is empty, as in Go."""
    found = container.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Malformed(f"{name} is not an object")
    return found
