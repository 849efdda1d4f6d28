"""Names among those of all tenants: each stands for one thing, and each thing has one name."""

from __future__ import annotations

from itertools import product

import pytest

from holdfast.errors import InvalidRequest
from holdfast.idempotency.interface import record_id
from holdfast.names import (
    check_actor_id,
    in_same_tenant,
    is_first_partition,
    partition_id,
    qualify,
    split_instance_actor,
    split_partition,
    split_queue_actor,
    split_tenant,
)

# Whatever makes a difference: a letter, a digit, what separates, what names may have, and what they may not begin with.
TEXTS = ["".join(letters) for length in range(7) for letters in product("a1@.-", repeat=length)]
# A tenant's name can be a queue's, or a number; and the longest there are.
NAMES = ["a", "1", "7", "-", ":", "a.b", "default", "orders", "orders-deadletter", "x" * 255]
TENANTS = [*NAMES, "acme"]


def test_what_is_joined_can_be_split() -> None:
    for tenant, name, partition in product(TENANTS, [*NAMES, "x" * 255 + "-deadletter"], (0, 1, 10, 255)):
        actor_id = check_actor_id(partition_id(qualify(tenant, name), partition))
        assert split_queue_actor(actor_id) == (tenant, name, partition)
        assert split_partition(actor_id) == (qualify(tenant, name), partition)
        assert is_first_partition(actor_id) == (partition == 0)
        assert in_same_tenant(qualify(tenant, name), "other") == qualify(tenant, "other")
    for tenant, name in product(TENANTS, NAMES):
        assert split_instance_actor(check_actor_id(qualify(tenant, name))) == (tenant, name)


def test_whatever_can_be_split_is_what_was_joined() -> None:
    """So no two texts name the same queue or instance."""
    queues = instances = 0
    for text in TEXTS:
        try:
            tenant, queue, partition = split_queue_actor(text)
        except InvalidRequest:
            pass
        else:
            queues += 1
            assert partition_id(qualify(tenant, queue), partition) == text
        try:
            tenant, instance = split_instance_actor(text)
        except InvalidRequest:
            pass
        else:
            instances += 1
            assert qualify(tenant, instance) == text
    assert queues > instances > 1000


@pytest.mark.parametrize(
    "text", ["@", "@@", "@@a", "@a", "@a@", "@a@@", "@.a@b", "@default@a", "@a@b@0", "@a@b@01", "@a@b@1@2", "a@b"]
)
def test_what_nobody_is_called_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        split_queue_actor(text)
    with pytest.raises(InvalidRequest):
        split_instance_actor(text)


def test_the_default_tenant_has_no_prefix() -> None:
    assert qualify("default", "orders") == "orders"
    assert split_tenant("orders") == ("default", "orders")


def test_no_two_keys_have_the_same_record() -> None:
    keys = ["a", "b", "@a", "a@b", "a/b", "a||b", "", "é", "default", "a" * 1024]
    records = {record_id(tenant, key) for tenant, key in product(TENANTS, keys)}
    assert len(records) == len(TENANTS) * len(keys)
    for record in records:
        check_actor_id(record)
