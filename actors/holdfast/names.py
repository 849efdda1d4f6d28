"""Names of queues, instances, tenants and actors: their syntax, and how an actor's id is composed of them."""

from __future__ import annotations

import re

from holdfast.errors import InvalidRequest
from holdfast.kinds import OWN_TYPES

MAX_ID_LENGTH = 255
#: The length of an id of an app's own actor, in characters.
MAX_APP_ACTOR_ID_LENGTH = 1000
DEAD_LETTER_SUFFIX = "-deadletter"
DEFAULT_TENANT = "default"
#: In a path, the caller's own tenant. It is not a valid tenant id, so it cannot collide with one.
OWN_TENANT = "~"

#: The syntax of an id, as a JSON Schema pattern.
ID_PATTERN = r"^[A-Za-z0-9\-_:][A-Za-z0-9\-_.:]*$"

#: The characters a token may have, as a pattern: visible ASCII, which a header can carry.
VISIBLE = "[!-~]"

_ID = re.compile(r"[A-Za-z0-9\-_:][A-Za-z0-9\-_.:]*\Z")
_ACTOR_ID = re.compile(r"[A-Za-z0-9\-_:@][A-Za-z0-9\-_.:@]*\Z")
# What daprd (1.18.2) passes on to an app unchanged; a bar would end a part of the state key.
_APP_ACTOR_ID = re.compile(r"[A-Za-z0-9\-_.:@;,~'$=*()]+\Z")
_STATE_KEY = re.compile(r"[A-Za-z0-9\-_.:@]+\Z")


def check_id(value: str, what: str = "id") -> str:
    """Returns an id that a user chose, if valid: 1 to 255 letters, digits and ``-_.:``, not starting with a dot."""
    if not value or len(value) > MAX_ID_LENGTH or not _ID.match(value):
        raise InvalidRequest(
            f"This {what} is not valid: it must have 1 to {MAX_ID_LENGTH} characters of letters, digits and "
            "'-_.:', and must not start with a dot."
        )
    return value


def check_queue_id(value: str) -> str:
    """Returns the name of a queue, if valid; a dead-letter queue's may be longer by its suffix."""
    check_id(value.removesuffix(DEAD_LETTER_SUFFIX) or value, "queue id")
    return value


def check_tenant(value: str) -> str:
    return check_id(value, "tenant id")


def qualify(tenant: str, name: str) -> str:
    """Returns the name of a tenant's queue, instance or shard: ``@TENANT@NAME``, or ``NAME`` for the default tenant."""
    return name if tenant == DEFAULT_TENANT else f"@{tenant}@{name}"


def split_tenant(qualified: str) -> tuple[str, str]:
    """Returns the tenant and the name in it. Raises InvalidRequest if :func:`qualify` cannot have made the value."""
    if not qualified.startswith("@"):
        return DEFAULT_TENANT, qualified
    tenant, mark, name = qualified[1:].partition("@")
    # The default tenant's names have only their bare form, so that each thing has exactly one name.
    if not mark or tenant == DEFAULT_TENANT:
        raise InvalidRequest("This is not a name within a tenant: it must have the form @TENANT@NAME.")
    return check_tenant(tenant), name


def is_of_default_tenant(qualified: str) -> bool:
    """Returns whether an actor id of a queue or an instance, or a qualified name, is in the default tenant."""
    return not qualified.startswith("@")


def in_same_tenant(qualified: str, name: str) -> str:
    """Qualifies ``name`` with the tenant of ``qualified``."""
    return qualify(split_tenant(qualified)[0], name)


def partition_id(queue: str, partition: int) -> str:
    """Returns the id of the actor of one partition; that of the first one is the queue's name."""
    return f"{queue}@{partition}" if partition else queue


def is_first_partition(actor_id: str) -> bool:
    """Returns whether a queue's actor id is that of its first partition, without parsing it."""
    # A tenant adds two "@", a partition number one.
    return actor_id.count("@") % 2 == 0


def split_partition(actor_id: str) -> tuple[str, int]:
    """Returns the qualified queue and the partition of an actor. Raises InvalidRequest if it is not a queue's actor."""
    tenant, queue, partition = split_queue_actor(actor_id)
    return qualify(tenant, queue), partition


def split_queue_actor(actor_id: str) -> tuple[str, str, int]:
    """Returns tenant, queue and partition of an actor. Raises InvalidRequest if it is not a queue's actor."""
    tenant, name = split_tenant(actor_id)
    queue, mark, number = name.partition("@")
    partition = int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 0
    if mark and partition_id(queue, partition) != name:
        raise InvalidRequest("This is not a partition of a queue: its name must be QUEUE@1, QUEUE@2 and so on.")
    return tenant, check_queue_id(queue), partition


def split_instance_actor(actor_id: str) -> tuple[str, str]:
    """Returns tenant and instance of an actor. Raises InvalidRequest if it is not an instance's actor."""
    tenant, name = split_tenant(actor_id)
    return tenant, check_id(name, "instance id")


def check_actor_id(value: str) -> str:
    """Returns an actor id, if valid: like an id, and ``@``, which separates tenants and partitions."""
    # An actor id has a tenant and an id, each within its own limit, and suffixes.
    if not value or len(value) > 2 * MAX_ID_LENGTH + 32 or not _ACTOR_ID.match(value):
        raise InvalidRequest("This actor id is not valid: it may hold letters, digits and '-_.:@' only.")
    return value


def check_address(actor_type: str, actor_id: str) -> str:
    """Returns the actor id, if actors of this type may have it: an app's own actors may have more ids than Holdfast's.

    They have 1 to 1000 letters, digits and ``-_.:@;,~'$=*()``, and are neither ``.`` nor ``..``.
    """
    if actor_type in OWN_TYPES:
        return check_actor_id(actor_id)
    if len(actor_id) > MAX_APP_ACTOR_ID_LENGTH or actor_id in (".", "..") or not _APP_ACTOR_ID.match(actor_id):
        raise InvalidRequest(
            f"This actor id is not valid: it must have 1 to {MAX_APP_ACTOR_ID_LENGTH} characters of letters, digits "
            "and \"-_.:@;,~'$=*()\", and must not be '.' or '..'."
        )
    return actor_id


def check_state_key(value: str) -> str:
    """Returns a state key, if valid: the SDK and daprd put it into JSON and into the table's key unescaped."""
    if not _STATE_KEY.match(value):
        raise ValueError(f"not a state key: {value!r}")
    return value
