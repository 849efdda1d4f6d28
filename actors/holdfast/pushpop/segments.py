"""The segments of a queue's lanes as state values: with what this turn has read of them, and what it has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import StorageBroken

if TYPE_CHECKING:
    from holdfast.pushpop.steps import Steps


class Segments:
    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._changed: dict[str, dict[str, list[Any]] | None] = {}
        self._read: dict[str, dict[str, list[Any]]] = {}

    def items(self, key: str) -> Steps[list[Any]]:
        """What a segment holds; it must be there."""
        items = yield from self.items_if_any(key)
        if items is None:
            raise StorageBroken(f"Queue {self._queue} is damaged: {key} is missing from the store.")
        return items

    def items_if_any(self, key: str) -> Steps[list[Any] | None]:
        value = self._changed.get(key) or self._read.get(key)
        if value is None:
            [value] = yield (key,)
            if value is None:
                return None
            self._read[key] = value
        return value["items"]

    def put(self, key: str, items: list[Any]) -> None:
        self._changed[key] = {"items": items}

    def delete(self, key: str) -> None:
        self._changed[key] = None

    def changes(self) -> dict[str, Any]:
        """What changed since the last call. The turn is over: what was read is forgotten."""
        self._read.clear()
        changed, self._changed = self._changed, {}
        return changed
