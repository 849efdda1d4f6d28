"""The stored heartbeats of an instance: the latest details of each running activity, under a key of their own.

A heartbeat writes its own value and the head. The head lists the calls that have one. No I/O: methods that need stored
values yield their keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.runtime.reads import Reads

Range = tuple[str, int, int]


class StoredHeartbeats:
    """The heartbeats of the current execution. The details are JSON text."""

    def __init__(self, generation: int = 0, execution_id: int = 0, seqs: list[int] | None = None) -> None:
        self._prefix = f"heartbeat-{generation}-{execution_id}-"
        #: The calls with a heartbeat, by the event that scheduled them.
        self._seqs = set(seqs or ())
        self._changed: dict[str, Any] = {}

    def keep(self, seq: int, details: str) -> None:
        self._seqs.add(seq)
        self._changed[self._key(seq)] = details

    def drop(self, seq: int) -> None:
        """Deletes the heartbeat of a call that has ended, if it has one."""
        if seq in self._seqs:
            self._seqs.remove(seq)
            self._changed[self._key(seq)] = None

    def read(self, seq: int) -> Reads[str | None]:
        """Reads the details of a call."""
        if seq not in self._seqs:
            return None
        key = self._key(seq)
        if key in self._changed:
            unsaved: str | None = self._changed[key]
            return unsaved
        [stored] = yield (key,)
        return stored  # type: ignore[no-any-return]

    def garbage(self) -> Iterator[Range]:
        """Returns the state values to be deleted later, as ranges of numbered keys."""
        return ((self._prefix, seq, seq + 1) for seq in self._seqs)

    @property
    def changed(self) -> bool:
        return bool(self._changed)

    def changes(self) -> dict[str, Any]:
        """Returns the state values that changed since the last call; None deletes a value."""
        changed, self._changed = self._changed, {}
        return changed

    def head(self) -> dict[str, Any]:
        """Returns the fields for the head."""
        return {"heartbeats": sorted(self._seqs)} if self._seqs else {}

    def _key(self, seq: int) -> str:
        return f"{self._prefix}{seq}"
