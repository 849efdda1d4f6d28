"""Bounds made small, so that a short run meets them all: full segments, purges in several turns, forgotten locks."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest.mock import patch

from holdfast.orchestration.index import instance_index, tree
from holdfast.orchestration.storage import outbox as outbox_entries
from holdfast.orchestration.storage import record
from holdfast.pushpop import index
from holdfast.pushpop.core import browsing, deferred_deletes, due_index, in_flight, item_store, lanes, segments
from holdfast.pushpop.core import dedup_log as dedup
from holdfast.pushpop.core import delayed as delayed_items

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

Sizes: TypeAlias = "tuple[tuple[ModuleType, str, tuple[Any, ...]], ...]"


_QUEUES: Sizes = (
    (lanes, "SEGMENT_ITEMS", (1, 2, 3, 7)),
    (lanes, "SEGMENT_BYTES", (1, 200, 500)),
    (segments, "INLINE_BYTES", (0, 100, 300, 2 * 1024)),
    (delayed_items, "FILE_ITEMS", (1, 2, 3, 7)),
    (delayed_items, "FILE_BYTES", (1, 200, 500)),
    (delayed_items, "RISE_AT_ONCE", (1, 2, 50)),
    (due_index, "CHUNK", (1, 2, 5)),
    (dedup, "CHUNK", (1, 2, 5)),
    (deferred_deletes, "SWEEP_AT_ONCE", (1, 2, 5)),
    (item_store, "CATCH_UP_AT_ONCE", (1, 2, 5, 200)),
    (item_store, "CATCH_UP_BYTES", (1, 100, 500, 2 * 1024 * 1024)),
    (item_store, "EXPIRED_AT_ONCE", (1, 2, 5, 200)),
    # Where a page ended one segment is read again, and from the next on there is something new.
    (browsing, "BROWSE_AT_ONCE", (2, 3, 100)),
    (due_index, "SWEEP_AT_ONCE", (1, 2, 200)),
    (in_flight, "INLINE_BYTES", (0, 100, 1000)),
    (in_flight, "EXPIRED_REMEMBERED", (1, 3, 100)),
    (index, "PAGE", (1, 2)),
)
_INSTANCES: Sizes = (
    (record, "SEGMENT_EVENTS", (1, 2, 3, 7)),
    (record, "SEGMENT_BYTES", (1, 500, 16 * 1024)),
    (outbox_entries, "SMALL_BOXES_BYTES", (0, 500, 4 * 1024)),
    (record, "SMALL_VALUE_BYTES", (0, 1, 11, 512)),
    (record, "EARLIER_KEPT", (1, 2, 10)),
    (record, "SWEEP_AT_ONCE", (1, 2, 200)),
)
_INDEX: Sizes = (
    (tree, "LEAF_ENTRIES", (4, 5, 48)),
    (tree, "INNER_ENTRIES", (4, 5, 96)),
    (instance_index, "_PAGES_AT_ONCE", (1, 8, 200)),
    (instance_index, "_PAGES_IN_MEMORY", (0, 1, 128)),
)


@contextmanager
def small(random: random.Random, sizes: Sizes = _QUEUES) -> Iterator[None]:
    """Inside, limits have random small sizes; sometimes they keep their real sizes."""
    if random.random() < 0.2:
        yield
        return
    with ExitStack() as patches:
        for module, name, values in sizes:
            patches.enter_context(patch.object(module, name, random.choice(values)))
        yield


def small_instances(random: random.Random) -> AbstractContextManager[None]:
    return small(random, _INSTANCES)


def small_index(random: random.Random) -> AbstractContextManager[None]:
    return small(random, _INDEX)
