"""The formats of stored values: refuses formats that this version does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import StorageBroken
from holdfast.kinds import HEAD, INSTANCE_INDEX_TYPE, METADATA, ORCHESTRATION_TYPE, QUEUE_TYPE
from holdfast.orchestration.index import shard
from holdfast.orchestration.storage.record import check_format
from holdfast.pushpop.core.format_version import refuse_other_format
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from holdfast.state_store.stored_key import StoredKey

#: The values that have the number of a format, by the type of their actors.
NUMBERED = {QUEUE_TYPE: METADATA, ORCHESTRATION_TYPE: HEAD, INSTANCE_INDEX_TYPE: shard.HEAD}


def refuse_other_formats(key: StoredKey, value: bytes) -> None:
    """Raises StorageBroken if the value has another format than this version reads, or cannot be read."""
    if NUMBERED.get(key.actor_type) != key.state_key:
        return
    what = f"The value {key}"
    try:
        stored: dict[str, Any] = load(value)
        if key.actor_type == QUEUE_TYPE:
            refuse_other_format(what, stored)
        elif key.actor_type == ORCHESTRATION_TYPE:
            check_format(stored, what)
        else:
            shard.Shard(stored)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise StorageBroken(f"{what} is damaged. Restore the data from a backup.") from None
