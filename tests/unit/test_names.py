"""Names that are refused, before they reach a key or a path."""

from __future__ import annotations

import string

import pytest

from holdfast.errors import InvalidRequest
from holdfast.names import check_actor_id, check_address, check_id, check_state_key

SAFE = string.ascii_letters + string.digits + "-_.:"
HOSTILE = [
    "",
    ".",
    "..",
    ".a",
    "a||b",
    "a/b",
    "a\\b",
    "a b",
    "a\n",
    "\na",
    "a\x00",
    "a%2e",
    "é",
    "\uff41",
    "a?b",
    "a#b",
]


@pytest.mark.parametrize("name", [SAFE, "a", "-", ":", "a.", "a..b", "x" * 255])
def test_a_name_is_taken(name: str) -> None:
    assert check_id(name) == name
    assert check_actor_id(name) == name


@pytest.mark.parametrize("name", [*HOSTILE, "a@b", "x" * 256])
def test_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="This queue is not valid"):
        check_id(name, "queue")


@pytest.mark.parametrize("name", ["tenant@queue", "queue@7", "@", "x" * 255 + "@" + "y" * 255 + "@12"])
def test_an_actor_may_have_a_tenant_and_a_partition(name: str) -> None:
    assert check_actor_id(name) == name


@pytest.mark.parametrize("name", [*HOSTILE, "x" * 600])
def test_an_actor_id_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_actor_id(name)


@pytest.mark.parametrize("name", [SAFE, ".a", "...", "~,;=$*()'", "tenant@queue", "x" * 1000])
def test_an_actor_of_an_app_may_have_more_ids(name: str) -> None:
    assert check_address("CounterActor", name) == name


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != ".a"] + ["a|b", "a+b", "a[b]", 'a"b', "x" * 1001])
def test_an_id_of_an_actor_of_an_app_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="This actor id is not valid"):
        check_address("CounterActor", name)


@pytest.mark.parametrize("name", [".a", "a;b", "x" * 600])
def test_an_actor_of_holdfast_may_not(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_address("PushPopActor", name)


@pytest.mark.parametrize("key", ["metadata", "_active_lock", "segment.0.17", ".", "a@b"])
def test_a_key_is_taken(key: str) -> None:
    assert check_state_key(key) == key


@pytest.mark.parametrize("key", ["", "a||b", "a/b", 'a"b', "a b", "é", "a\n"])
def test_a_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="not a state key"):
        check_state_key(key)
