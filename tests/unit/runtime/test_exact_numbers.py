"""State values whose numbers daprd would change are stored in another form; all others as they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.idempotency.actor import IdempotencyActor
from holdfast.idempotency.usage_actor import RecordUsageActor
from holdfast.orchestration.actor.actor import OrchestrationActor
from holdfast.orchestration.index.instance_index import InstanceIndexActor
from holdfast.orchestration.index.tenant_index import TenantIndexActor
from holdfast.orchestration.recovery.rescuer import RescuerActor
from holdfast.pushpop.actor import PushPopActor
from holdfast.pushpop.index import QueueIndexActor
from holdfast.runtime.exact_numbers import check_json, original, protected, protected_transaction
from holdfast.runtime.notifier import NotifierActor
from holdfast.runtime.serialization import dump
from holdfast.runtime.wake_list import WakeListActor

if TYPE_CHECKING:
    from holdfast.runtime.unit_of_work import DurableActor

CHANGED = [2**53 + 1, 2**63, -(2**64), 10**30, 1.0, -0.0, 0.0, 1e16, 1e20, [[1.0]], {"a": {"b": [2**60]}}]
KEPT = [1, -1, 2**53, 1.5, 1e22, 1e300, 5e-324, "1.0", "9007199254740993", "3e5", None, True, [], {}, {"1.0": 1}]


@pytest.mark.parametrize("value", [{1, 2}, (1, 2), b"x", {1: 2}, [{"a": (1,)}], object()])
def test_what_json_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="A state value has"):
        check_json(value)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": -float("inf")}])
def test_numbers_that_json_does_not_have_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="which JSON does not have"):
        check_json(value)


@pytest.mark.parametrize("value", [*CHANGED, *KEPT])
def test_json_is_not_refused(value: Any) -> None:
    check_json(value)


@pytest.mark.parametrize("value", CHANGED)
def test_a_value_that_daprd_would_change_is_stored_as_text(value: Any) -> None:
    stored = protected(dump(value))
    assert json.loads(stored) == {"$json": dump(value).decode()}
    assert original(stored) == dump(value)


@pytest.mark.parametrize("value", KEPT)
def test_any_other_value_is_stored_as_it_is(value: Any) -> None:
    assert protected(dump(value)) == dump(value)
    assert original(dump(value)) == dump(value)


@pytest.mark.parametrize(
    "value", [{"$json": "1"}, {"$json": ""}, {"$json": "x", "b": 1}, {"$json": 1}, {"$json": None}]
)
def test_what_looks_like_the_other_form_comes_back_as_it_was(value: Any) -> None:
    assert json.loads(original(protected(dump(value)))) == value


def test_stores_may_write_json_with_spaces() -> None:
    assert original(b' {"$json": "[1.0]"}') == b"[1.0]"


def test_only_the_values_of_a_transaction_are_changed() -> None:
    operations = [
        {"operation": "upsert", "request": {"key": "a", "value": 1.0, "metadata": {"ttlInSeconds": "1.0"}}},
        {"operation": "upsert", "request": {"key": "b", "value": 1}},
        {"operation": "delete", "request": {"key": "c"}},
    ]
    written = json.loads(protected_transaction(dump(operations)))
    assert written[0]["request"] == {"key": "a", "value": {"$json": "1.0"}, "metadata": {"ttlInSeconds": "1.0"}}
    assert written[1:] == operations[1:]


@pytest.mark.parametrize(
    "own",
    [
        NotifierActor,
        IdempotencyActor,
        InstanceIndexActor,
        OrchestrationActor,
        PushPopActor,
        QueueIndexActor,
        RecordUsageActor,
        TenantIndexActor,
        RescuerActor,
        WakeListActor,
    ],
)
def test_what_spark_reads_is_never_in_the_other_form(own: type[DurableActor]) -> None:
    assert not own.exact_numbers
