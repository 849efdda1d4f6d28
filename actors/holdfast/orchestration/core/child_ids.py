"""The ids of children that the code starts without an id."""

from __future__ import annotations

import hashlib
from uuid import NAMESPACE_OID, uuid5

from holdfast.names import MAX_ID_LENGTH


def child_prefix(instance_id: str, seed: str, execution_id: int) -> str:
    """Returns the beginning of the ids of the children of an execution.

    Children of an earlier instance with the same id may still exist: the seed distinguishes the two.
    """
    return f"{instance_id}:{hashlib.sha256(seed.encode()).hexdigest()[:12]}.{execution_id}."


def restarted_child(instance_id: str, seed: str, execution_id: int, seq: int) -> str:
    """Returns the id under which a rerun starts the child of event ``seq``, which may exist under another id."""
    child = f"{child_prefix(instance_id, seed, execution_id)}e{seq}"
    return child if len(child) <= MAX_ID_LENGTH else str(uuid5(NAMESPACE_OID, child))
