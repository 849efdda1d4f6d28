"""What may name a queue, an instance or an actor, before it reaches a key, a path or a page."""

from __future__ import annotations

import re

from holdfast.errors import InvalidRequest

MAX_ID_LENGTH = 255
DEAD_LETTER_SUFFIX = "-deadletter"
DEFAULT_TENANT = "default"
#: In a path, the tenant of whoever calls; nobody can be called so.
OWN_TENANT = "~"

#: As JSON Schema has it, where names are described.
ID_PATTERN = r"^[A-Za-z0-9\-_:][A-Za-z0-9\-_.:]*$"

#: Of a token, as a pattern has it: a header carries no others.
VISIBLE = "[!-~]"

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


def check_tenant(value: str) -> str:
    return check_id(value, "tenant id")


def qualify(tenant: str, name: str) -> str:
    """A tenant's queue, instance or shard among those of all tenants: ``@TENANT@NAME``, but bare in the default one."""
    return name if tenant == DEFAULT_TENANT else f"@{tenant}@{name}"


def split_tenant(qualified: str) -> tuple[str, str]:
    """Whose it is, and what it is called there. Raises InvalidRequest for what :func:`qualify` does not make."""
    if not qualified.startswith("@"):
        return DEFAULT_TENANT, qualified
    tenant, mark, name = qualified[1:].partition("@")
    # One name for one thing: the default tenant's have no other.
    if not mark or tenant == DEFAULT_TENANT:
        raise InvalidRequest("This is not the name of anything of a tenant: those are @TENANT@NAME.")
    return check_tenant(tenant), name


def beside(qualified: str, name: str) -> str:
    """What this name means to the tenant that the other one is of."""
    return qualify(split_tenant(qualified)[0], name)


def partition_id(queue: str, partition: int) -> str:
    """The actor of one partition of a queue, qualified or not; the first has the queue's own name."""
    return f"{queue}@{partition}" if partition else queue


def is_first_partition(actor_id: str) -> bool:
    """Quicker than splitting it, for what is known to be the actor of a queue."""
    # Two marks around a tenant, one before a number.
    return actor_id.count("@") % 2 == 0


def split_partition(actor_id: str) -> tuple[str, int]:
    """The queue, qualified, and the partition an actor is for. Raises InvalidRequest when it is for none."""
    tenant, queue, partition = split_queue_actor(actor_id)
    return qualify(tenant, queue), partition


def split_queue_actor(actor_id: str) -> tuple[str, str, int]:
    """The same, with the tenant and the queue apart."""
    tenant, name = split_tenant(actor_id)
    queue, mark, number = name.partition("@")
    partition = int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 0
    if mark and partition_id(queue, partition) != name:
        raise InvalidRequest("This is not a partition of a queue: those are QUEUE@1, QUEUE@2 and so on.")
    return tenant, check_queue_id(queue), partition


def split_instance_actor(actor_id: str) -> tuple[str, str]:
    """The tenant and the instance an actor is for. Raises InvalidRequest when it is for none."""
    tenant, name = split_tenant(actor_id)
    return tenant, check_id(name, "instance id")


def check_actor_id(value: str) -> str:
    """The id of an actor: as above, and ``@``, which marks partitions and tenants."""
    # Twice the length: a tenant and an id, each within its own limit, make one actor id; and room for the suffixes.
    if not value or len(value) > 2 * MAX_ID_LENGTH + 32 or not _ACTOR_ID.match(value):
        raise InvalidRequest("This actor id is not valid: it may hold letters, digits and '-_.:@' only.")
    return value


def check_state_key(value: str) -> str:
    """The name of a state value: the SDK and daprd put it into JSON and into the table's key as it is."""
    if not _STATE_KEY.match(value):
        raise ValueError(f"not a state key: {value!r}")
    return value
