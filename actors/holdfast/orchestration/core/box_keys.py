"""The keys of the boxes that hold an instance's mail: mailboxes, and for each name of a request two boxes.

No mailbox has a name with a question mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.orchestration.definitions import Orchestration


def request_box(name: str) -> str:
    """Returns the key of the box of the requests called ``name``."""
    return f"?{name}"


def returned_box(name: str) -> str:
    """Returns the key of the box of requests that an earlier execution took and did not answer."""
    return f"?{name}?"


def is_returned(box: str) -> bool:
    return box.endswith("?")


def requested(box: str) -> str | None:
    """Returns the name of the requests in a box; None for a mailbox."""
    return box.strip("?") if box.startswith("?") else None


def boxes_of(definition: Orchestration) -> frozenset[str]:
    """Returns the keys of the boxes that an orchestration declares, without those of returned requests."""
    return frozenset([*definition.mailboxes, *map(request_box, definition.requests)])
