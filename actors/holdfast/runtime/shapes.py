"""What the bodies of Dapr's actor API are made of."""

from __future__ import annotations

from typing import Any


class Malformed(ValueError):
    """JSON, but not of the shape that is wanted."""


def object_in(container: dict[str, Any], name: str) -> dict[str, Any]:
    """The object of this name; one that is missing is an empty one, as in Go."""
    found = container.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Malformed(f"{name} is not an object")
    return found
