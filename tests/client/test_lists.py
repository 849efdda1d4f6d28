"""Finding instances, counting them, and acting on all that match."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client, errors
from holdfast.client import BulkResult
from tests.support import workflows
from tests.support.proxy import lose_answer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.proxy import FaultyProxy


async def _listed(client: Client, instance_id: str, number: int, **selected: Any) -> None:
    """Waits until so many are listed: the index is written a moment after an answer."""

    async def found() -> bool:
        return len(await _ids(client, instance_id, **selected)) == number

    await eventually(found)


async def _ids(client: Client, instance_id: str, **selected: Any) -> list[str]:
    listed = client.orchestrations(id_prefix=f"{instance_id}-", page_size=2, **selected)
    return [one.instance_id.removeprefix(f"{instance_id}-") async for one in listed]


async def _begin(client: Client, instance_id: str) -> datetime:
    for name in "abc":
        tags = {"batch": "first:x" if name == "c" else "second", "env": "test"}
        await client.start(workflows.approval, instance_id=f"{instance_id}-{name}", tags=tags)
    await _listed(client, instance_id, 3, status="RUNNING")
    return datetime.now(UTC)


async def test_lists_are_selected_and_ordered(client: Client, instance_id: str) -> None:
    began = await _begin(client, instance_id)
    assert await _ids(client, instance_id) == ["c", "b", "a"]
    assert await _ids(client, instance_id, order="oldest") == ["a", "b", "c"]
    assert await _ids(client, instance_id, tags={"batch": "second", "env": "test"}) == ["b", "a"]
    assert await _ids(client, instance_id, tags={"batch": "first:x"}) == ["c"]
    assert await _ids(client, instance_id, status=["SUSPENDED", "BLOCKED"]) == []
    assert await _ids(client, instance_id, name="approval", version="1") == ["c", "b", "a"]
    hour = timedelta(hours=1)
    assert await _ids(client, instance_id, started_after=began - hour, started_before=began + hour) == ["c", "b", "a"]
    assert await _ids(client, instance_id, started_after=(began + hour).replace(tzinfo=None)) == []
    assert await _ids(client, instance_id, ended_after=began - hour, ended_before=began) == []
    [newest, *_] = [one async for one in client.orchestrations(id_prefix=f"{instance_id}-")]
    assert (newest.name, newest.version, newest.status) == ("approval", "1", "RUNNING")
    assert (newest.tags, newest.ended_at) == ({"batch": "first:x", "env": "test"}, None)
    assert newest.waiting_for is None
    selected = client.orchestrations(id_prefix=f"{instance_id}-", waiting=True)
    waiting = [[(each.kind, each.name) for each in one.waiting_for or ()] async for one in selected]
    assert waiting == 3 * [[("event", "approved")]]
    with pytest.raises(errors.InvalidRequest, match="status"):
        await _ids(client, instance_id, status="TIRED")


async def test_counts_by_status_and_name(client: Client, instance_id: str) -> None:
    await _begin(client, instance_id)
    everything = await client.orchestration_counts()
    assert everything.by_name["approval"]["RUNNING"] >= 3
    assert everything.counts["RUNNING"] >= everything.by_name["approval"]["RUNNING"]
    assert list((await client.orchestration_counts("approval")).by_name) == ["approval"]
    assert (await client.orchestration_counts("nobody")).counts == {}


async def test_an_action_goes_over_all_pages(client: Client, instance_id: str) -> None:
    await _begin(client, instance_id)
    selected = {"id_prefix": f"{instance_id}-"}
    assert await client.bulk("cancel", dry_run=True, **selected) == BulkResult(3, 0, [])
    seen: list[BulkResult] = []
    suspended = await client.bulk("suspend", reason="later", page_size=2, progress=seen.append, **selected)
    assert seen == [BulkResult(2, 2, []), BulkResult(3, 3, [])]
    assert suspended == seen[-1]
    await _listed(client, instance_id, 3, status="SUSPENDED")
    failed = await client.bulk("delete", **selected)
    assert failed == BulkResult(3, 0, [f"{instance_id}-{name}" for name in "cba"])
    assert (await client.bulk("resume", status="SUSPENDED", **selected)).done == 3
    assert (await client.bulk("raise", event="approved", data="ann", **selected)).done == 3
    assert await client.orchestration(f"{instance_id}-a").result(timeout=20) == "ann"
    with pytest.raises(errors.InvalidRequest, match="all"):
        await client.bulk("cancel")
    assert (await client.bulk("resume", all=True, dry_run=True)).done == 0


async def test_a_status_of_none_selects_nothing_rather_than_everything(client: Client, instance_id: str) -> None:
    await _begin(client, instance_id)
    with pytest.raises(errors.InvalidRequest, match="status"):
        await client.bulk("cancel", status=[], id_prefix=f"{instance_id}-")
    with pytest.raises(errors.InvalidRequest, match="status"):
        await _ids(client, instance_id, status=())
    assert await _ids(client, instance_id, status=None) == ["c", "b", "a"]


async def test_a_page_whose_response_is_lost_is_not_repeated(
    proxy: FaultyProxy, client: Client, instance_id: str
) -> None:
    await _begin(client, instance_id)
    async with Client(proxy.url) as disturbed:
        proxy.on("/bulk", lose_answer)
        with pytest.raises(errors.AnswerLost):
            await disturbed.bulk("cancel", id_prefix=f"{instance_id}-")
        assert proxy.times("/bulk") == 1
