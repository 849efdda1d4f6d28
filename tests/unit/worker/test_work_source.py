"""Which items of a queue are activities."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.worker.work_source import batch_of

ACTIVITY: dict[str, Any] = {
    "instance_id": "order-17",
    "execution_id": 1,
    "scheduled_seq": 2,
    "name": "charge",
    "attempt": 1,
    "input": [17],
}


def batch(item: Any) -> Any:
    messages = [{"id": "0-0-0-0", "delivery_count": 1}]
    return batch_of("default", "activities", {"items": [item], "messages": messages, "lock_id": "l"})


def test_fields_of_a_newer_server_are_ignored() -> None:
    [job] = batch(ACTIVITY | {f"new_{number}": number for number in range(50)}).jobs
    assert (job.instance_id, job.name, job.input) == ("order-17", "charge", "[17]")


@pytest.mark.parametrize(
    "item", [None, "charge", {}, ACTIVITY | {"scheduled_seq": 0}, ACTIVITY | {"instance_id": "a||b"}]
)
def test_what_is_no_activity_is_not_run(item: Any) -> None:
    found = batch(item)
    assert (list(found.jobs), found.invalid_items) == ([], ["0-0-0-0"])
