"""Quotas as the settings file has them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import SettingsError
from holdfast.gateway.quotas.quotas import Quota, Quotas


def test_a_tenant_has_its_own_or_that_of_the_others() -> None:
    quotas = Quotas.read({"acme": {"max_queues": 3, "max-items": 10}, "*": {"requests_per_second": 0.5}})
    assert quotas.of("acme") == Quota(max_queues=3, max_items=10)
    assert quotas.of("umbrella") == quotas.of("default") == Quota(requests_per_second=0.5)
    assert quotas.limit_requests


def test_without_any_there_is_no_limit() -> None:
    quotas = Quotas.read({})
    assert quotas.of("acme") == Quota()
    assert not quotas.limit_requests


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"acme": {"max_queue": 3}}, "tenants.acme: max_queue"),
        ({"acme": {"max_items": -1}}, "tenants.acme: max_items"),
        ({"acme": {"max_items": True}}, "tenants.acme: max_items"),
        ({"acme": {"requests_per_second": 0}}, "tenants.acme: requests_per_second"),
        ({"acme": {"requests_per_second": float("inf")}}, "tenants.acme: requests_per_second"),
        ({"a@b": {"max_items": 1}}, "tenants: This tenant id is not valid"),
        ({"acme": 3}, "tenants.acme: must be a table"),
        ({"*": "much"}, "must be a table"),
    ],
)
def test_what_is_no_quota_is_one_sentence(tables: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match="tenants") as refused:
        Quotas.read(tables)
    assert told in str(refused.value)
