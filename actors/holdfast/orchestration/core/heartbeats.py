"""The details of heartbeats: small JSON values that a later attempt of an activity finds."""

from __future__ import annotations

from typing import Any

from holdfast.errors import TooLarge
from holdfast.orchestration.core.payloads import ANYTHING

#: They travel in the queue item of the next attempt, beside the largest input.
MAX_DETAILS_BYTES = 2048


def details_as_json(details: Any) -> str:
    """Returns the details as JSON text. Raises TypeError for a value that JSON does not have, and TooLarge."""
    return check_details(ANYTHING.dump(details))


def check_details(text: str) -> str:
    size = len(text.encode())
    if size > MAX_DETAILS_BYTES:
        raise TooLarge(
            f"The details of a heartbeat may have {MAX_DETAILS_BYTES} bytes of JSON; these have {size}. Store them "
            "elsewhere, and report where: a position, a count, a name."
        )
    return text
