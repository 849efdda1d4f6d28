"""Looks at the waiting items of a queue without taking them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.pushpop.core.budgets import MAX_POP_BYTES, ResponseBudget
from holdfast.pushpop.core.items import Place, has_expired, segment_key, waiting_at

if TYPE_CHECKING:
    from holdfast.pushpop.core.item_store import ItemStore
    from holdfast.pushpop.core.items import Delivery
    from holdfast.runtime.reads import Reads

# The most segments to read for one page of a listing.
BROWSE_AT_ONCE = 100


def peek(store: ItemStore, now: float, count: int, size: int = MAX_POP_BYTES) -> Reads[list[Delivery]]:
    """Returns the next items in pop order without removing them; fewer if they are large."""
    budget = ResponseBudget(count, size)
    after: Place | None = None
    while not budget.full:
        page, after = yield from browse(store, after, count, size)
        for delivery in page:
            if not has_expired(delivery.item.expires_at, now) and not budget.add(delivery):
                break
        if after is None:
            break
    return budget.found


def browse(
    store: ItemStore, after: Place | None, count: int, size: int = MAX_POP_BYTES
) -> Reads[tuple[list[Delivery], Place | None]]:
    """Returns up to ``count`` waiting items after a place, and the place to continue from, if there are more.

    Reads a bounded number of segments, so it may return fewer items than there are, or none.
    """
    budget = ResponseBudget(count, size)
    segments = 0
    last = after
    for priority in sorted(store.lanes):
        if after is not None and priority < after.priority:
            continue
        lane = store.lanes[priority]
        for returned in lane.returned:
            if after is None or returned.taken.place > after:
                if not budget.add((yield from store.deliver(returned.taken))):
                    return budget.found, last
                last = returned.taken.place
        segment, ordinal = lane.head, lane.offset
        if after is not None and after.priority == priority:
            segment, ordinal = max((segment, ordinal), (after.segment, after.ordinal + 1))
        while (segment, ordinal) < (lane.tail, lane.filled):
            if segments >= BROWSE_AT_ONCE:
                return budget.found, last
            segments += 1
            items = yield from store.segments.items(segment_key(priority, segment))
            for number in range(ordinal, len(items)):
                place = Place(priority, segment, number)
                if (taken := waiting_at(place, items[number])) and not budget.add((yield from store.deliver(taken))):
                    return budget.found, last
                last = place
            segment, ordinal = segment + 1, 0
    return budget.found, None
