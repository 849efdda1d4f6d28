"""The keys of records that Holdfast begins itself."""

from __future__ import annotations


def activity_key(instance_id: str, execution_id: int, scheduled_seq: int) -> str:
    """Returns the key of the record of an activity's call.

    Ids have no slash, so it differs from the idempotency keys that activities see.
    """
    return f"activity/{instance_id}:{execution_id}:{scheduled_seq}"
