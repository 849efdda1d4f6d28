"""The entries of the index: what is kept of an instance, and in which lists.

An instance is in the list of all instances, in that of its status, in that of its orchestration, and in one for each of
its tags. Each list is in order of the times of the starts and has the whole entry, so that a list is shown without
looking elsewhere. One more list has the ids, in their order.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.orchestration.index.tree import Key

#: The list of all instances, and the list of their ids.
ALL = "all"
IDS = "ids"

# The times of ends are rounded up to these seconds where whole pages are left out by them: rarely changed is rarely
# written.
_MEASURE_SECONDS = 3600.0
# About the size of an entry without its texts.
_ENTRY_BYTES = 120
_IDS_BYTES = 100


class Entry(NamedTuple):
    """The index's entry of an instance."""

    created_at: float
    instance_id: str
    name: str
    version: str
    status: str
    ended_at: float | None
    tags: Mapping[str, str]

    @classmethod
    def of(cls, key: Key, value: list[Any]) -> Self:
        """Returns the entry of a key and a value in any list but that of the ids."""
        return cls(key[1], key[2], *value[:5])  # type: ignore[arg-type]

    @property
    def value(self) -> list[Any]:
        """The value in every list but that of the ids. The list of all has the rank after it."""
        return [self.name, self.version, self.status, self.ended_at, self.tags]

    def keys(self) -> Iterator[Key]:
        """Yields its keys in every list but those of all instances and of the ids."""
        for name in (list_of_status(self.status), list_of_name(self.name), *map(list_of_tag, self.tags.items())):
            yield [name, self.created_at, self.instance_id]


def list_of_status(status: str) -> str:
    return f"status-{status}"


# Names and tags are text of any length, and those of one digest share a list: a search compares them.


def list_of_name(name: str) -> str:
    return f"name-{_digest(name)}"


def list_of_tag(tag: tuple[str, str]) -> str:
    return f"tag-{_digest(':'.join(tag))}"


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def measure(value: Any) -> float:
    """Returns a time not before the end of the instance; 0 if it has not ended, and for the list of ids."""
    ended_at = value[3] if isinstance(value, list) else None
    return 0.0 if ended_at is None else math.ceil(ended_at / _MEASURE_SECONDS) * _MEASURE_SECONDS


def size(value: Any) -> int:
    """Returns the approximate size of a value and its key, in bytes."""
    if not isinstance(value, list):
        return _IDS_BYTES
    tags = value[4]
    return _ENTRY_BYTES + 2 * len(value[0]) + sum(2 * (len(key) + len(tag)) for key, tag in tags.items())
