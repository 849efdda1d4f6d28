"""Whether the index of queues lists a queue, and what is to be done about it."""

from __future__ import annotations

from typing import Any


class IndexEntry:
    """The index is another actor: it is called after the turn, and may not have done yet what is asked of it."""

    def __init__(self) -> None:
        self.listed = False
        #: Whether the index may list the queue although it was deleted.
        self.removal_pending = False

    def deleted(self) -> None:
        """Records that the queue was deleted: its entry has to go, also one that is being added just now."""
        self.listed, self.removal_pending = False, True

    def added(self, *, wanted: bool) -> bool:
        """Records that the index has the queue; returns whether that is news."""
        if not wanted:
            self.deleted()  # it was deleted meanwhile
            return True
        news = not self.listed or self.removal_pending
        self.listed, self.removal_pending = True, False
        return news

    def removed(self) -> bool:
        """Records that the index does not have the queue; returns whether that is news."""
        news = self.listed or self.removal_pending
        self.listed = self.removal_pending = False
        return news

    def to_json(self) -> dict[str, bool]:
        """Returns its part of the metadata."""
        parts = (("_indexed", self.listed), ("_index_removal", self.removal_pending))
        return {key: part for key, part in parts if part}

    def restore(self, metadata: dict[str, Any]) -> None:
        self.listed = metadata.get("_indexed", False)
        self.removal_pending = metadata.get("_index_removal", False)
