"""Bounds made small, so that a short run meets them all: full segments, purges in several turns, forgotten locks."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from holdfast.pushpop import calendar, dedup, garbage, holdings, index, lanes, shelf, stock

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator


@contextmanager
def small(random: random.Random) -> Iterator[None]:
    """Sizes from the generator; now and then those that are in use."""
    if random.random() < 0.2:
        yield
        return
    with ExitStack() as patches:
        for module, name, values in (
            (lanes, "SEGMENT_ITEMS", (1, 2, 3, 7)),
            (lanes, "SEGMENT_BYTES", (1, 200, 500)),
            (shelf, "FILE_ITEMS", (1, 2, 3, 7)),
            (shelf, "FILE_BYTES", (1, 200, 500)),
            (shelf, "RISE_AT_ONCE", (1, 2, 50)),
            (calendar, "CHUNK", (1, 2, 5)),
            (dedup, "CHUNK", (1, 2, 5)),
            (garbage, "SWEEP_AT_ONCE", (1, 2, 5)),
            (stock, "CATCH_UP_AT_ONCE", (1, 2, 5, 200)),
            (stock, "CATCH_UP_BYTES", (1, 100, 500, 2 * 1024 * 1024)),
            (stock, "SPOILED_AT_ONCE", (1, 2, 5, 200)),
            # Where a page ended one segment is read again, and from the next on there is something new.
            (stock, "BROWSE_AT_ONCE", (2, 3, 100)),
            (holdings, "INLINE_BYTES", (0, 100, 1000)),
            (holdings, "EXPIRED_REMEMBERED", (1, 3, 100)),
            (index, "PAGE", (1, 2)),
        ):
            patches.enter_context(patch.object(module, name, random.choice(values)))
        yield
