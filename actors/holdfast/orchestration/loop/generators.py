"""Tracks the async generators of an orchestration, and closes unfinished ones at a deterministic point.

A generator that loses its last reference while the code runs is closed at once, as in asyncio: that happens at the same
point of the code in every replay. The cyclic garbage collector runs at no defined time. Generators that it finds are
therefore kept, and closed at the end of the execution together with those still in use.
"""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    Generator = AsyncGenerator[Any, Any]

# Entries of finished generators are removed when the number of entries has doubled.
_MIN_ENTRIES = 64


class _Collector:
    """Tracks whether the cyclic garbage collector is running in a thread."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._watched = False

    def watch(self) -> None:
        if not self._watched:
            self._watched = True
            gc.callbacks.append(self._changed)

    def is_at_work_here(self) -> bool:
        return self._thread == threading.get_ident()

    def _changed(self, phase: str, _: dict[str, int]) -> None:
        self._thread = threading.get_ident() if phase == "start" else None


collector = _Collector()


class Generators:
    """The async generators of one loop that have begun, in the order in which they began."""

    def __init__(self) -> None:
        self._begun = 0
        #: By address: the number and a weak reference to the generator.
        self._entries: dict[int, tuple[int, ref[Generator]]] = {}
        self._found: list[tuple[int, Generator]] = []
        self._room = _MIN_ENTRIES

    def begin(self, generator: Generator) -> None:
        if len(self._entries) >= self._room:
            self._entries = {key: entry for key, entry in self._entries.items() if _is_open(entry[1]())}
            self._room = max(_MIN_ENTRIES, 2 * len(self._entries))
        self._begun += 1
        # Not a weak set: the garbage collector clears weak references before it calls finalizers.
        self._entries[id(generator)] = self._begun, ref(generator)

    def dropped(self, generator: Generator) -> None:
        """Notes that the code dropped its last reference to the generator, which is closed at once."""
        self._entries.pop(id(generator), None)

    def found(self, generator: Generator) -> None:
        """Notes that the garbage collector found the generator, which is closed at the end of the execution."""
        number, _ = self._entries.pop(id(generator), (self._begun, None))
        self._found.append((number, generator))

    def take_open(self) -> list[Generator]:
        """Returns, once, all unfinished generators in the order in which they began."""
        used = ((number, generator()) for number, generator in self._entries.values())
        generators = sorted([*self._found, *used], key=lambda entry: entry[0])
        self.clear()
        return [generator for _, generator in generators if generator is not None and _is_open(generator)]

    def clear(self) -> None:
        self._entries.clear()
        self._found.clear()


def _is_open(generator: Generator | None) -> bool:
    return generator is not None and generator.ag_frame is not None  # type: ignore[attr-defined]
