"""The error of an invalid push names the place in the request."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidRequest
from holdfast.pushpop.api.requests import Push


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "item: is missing"),
        ({"item": 1, "priority": -1}, "priority: Input should be greater than or equal to 0"),
        ({"item": 1, "colour": "red"}, "colour: is not known here"),
        ({"item": 1, "elsewhere": 2, "colour": "red"}, "colour: is not known here"),
        ({"items": [{"item": 1}, {}]}, "items.1.item: is missing"),
        ({"items": [{}]}, "items.0.item: is missing"),
    ],
)
def test_where_it_is_wrong(body: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Push.parse(body)
    assert str(caught.value) == told
