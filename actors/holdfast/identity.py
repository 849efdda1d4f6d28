"""What may name a queue, an instance or an actor, before it reaches a key, a path or a page."""

from __future__ import annotations

import re

from holdfast.errors import InvalidRequest

MAX_ID_LENGTH = 255
DEAD_LETTER_SUFFIX = "-deadletter"

#: As JSON Schema has it, where names are described.
ID_PATTERN = r"^[A-Za-z0-9\-_:][A-Za-z0-9\-_.:]*$"

_ID = re.compile(r"[A-Za-z0-9\-_:][A-Za-z0-9\-_.:]*\Z")
_ACTOR_ID = re.compile(r"[A-Za-z0-9\-_:@][A-Za-z0-9\-_.:@]*\Z")
_STATE_KEY = re.compile(r"[A-Za-z0-9\-_.:@]+\Z")


def check_id(value: str, what: str = "id") -> str:
    """A name chosen by a user: 1 to 255 letters, digits and ``-_.:``, not starting with a dot."""
    if not value or len(value) > MAX_ID_LENGTH or not _ID.match(value):
        raise InvalidRequest(
            f"This {what} is not valid: it must have 1 to {MAX_ID_LENGTH} characters of letters, digits and "
            "'-_.:', and must not start with a dot."
        )
    return value


def check_queue_id(value: str) -> str:
    """The name of a queue; that of a dead-letter queue may be longer by what tells it from the queue it serves."""
    check_id(value.removesuffix(DEAD_LETTER_SUFFIX) or value, "queue id")
    return value


def partition_id(queue: str, partition: int) -> str:
    """The actor of one partition of a queue; the first has the queue's own name."""
    return f"{queue}@{partition}" if partition else queue


def split_partition(actor_id: str) -> tuple[str, int]:
    """The queue and the partition an actor is for. Raises InvalidRequest when it is for none."""
    queue, mark, number = actor_id.partition("@")
    partition = int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 0
    if mark and partition_id(queue, partition) != actor_id:
        raise InvalidRequest("This is not a partition of a queue: those are QUEUE@1, QUEUE@2 and so on.")
    return check_queue_id(queue), partition


def check_actor_id(value: str) -> str:
    """The id of an actor: as above, and ``@``, which marks partitions and tenants."""
    # Twice the length: a tenant and an id, each within its own limit, make one actor id.
    if not value or len(value) > 2 * MAX_ID_LENGTH + 16 or not _ACTOR_ID.match(value):
        raise InvalidRequest("This actor id is not valid: it may hold letters, digits and '-_.:@' only.")
    return value


def check_state_key(value: str) -> str:
    """The name of a state value: the SDK and daprd put it into JSON and into the table's key as it is."""
    if not _STATE_KEY.match(value):
        raise ValueError(f"not a state key: {value!r}")
    return value
