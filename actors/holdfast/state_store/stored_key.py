"""The keys of stored values: the address of an actor and the name of its value."""

from __future__ import annotations

from typing import NamedTuple

SEPARATOR = "||"


class StoredKey(NamedTuple):
    """The parts of the key of an actor's value."""

    app_id: str
    actor_type: str
    actor_id: str
    state_key: str

    @classmethod
    def parse(cls, key: str) -> StoredKey | None:
        """Returns the parts, or None for a key that is not of an actor's value."""
        parts = key.split(SEPARATOR)
        return cls(*parts) if len(parts) == 4 else None

    def __str__(self) -> str:
        return SEPARATOR.join(self)
