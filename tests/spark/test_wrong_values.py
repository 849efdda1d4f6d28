"""A value of an unexpected form loses only its own row, and is reported with its address."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import StorageBroken
from holdfast.orchestration.storage.record import FORMAT
from holdfast.pushpop.core import lanes
from tests.spark.state_writer import read, write
from tests.support.queue_driver import MORNING, QueueDriver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STRANGE: tuple[Any, ...] = ("soon", 1e300, -1e300, True, [1], {"a": 1})
QUEUE = "shop||PushPopActor||"

pytestmark = pytest.mark.usefixtures("segments_apart")


@pytest.mark.parametrize("strange", STRANGE)
def test_a_time_that_is_none_costs_one_item(tmp_path: Path, strange: Any) -> None:
    queue = _queue(3)
    segment = json.loads(queue["segment-0-0"])
    segment["at"] = [segment["at"], strange, segment["at"]]
    _check_items(tmp_path, queue | {"segment-0-0": json.dumps(segment)}, ["0", "2"], "enqueued_at")


@pytest.mark.parametrize("strange", ["soon", 1e300, True, {"a": 1}])
def test_a_time_of_all_that_is_none_costs_all(tmp_path: Path, strange: Any) -> None:
    queue = _queue(3)
    segment = json.loads(queue["segment-0-0"])
    file = _written(tmp_path, good=_queue(2), bad=queue | {"segment-0-0": json.dumps(segment | {"at": strange})})
    assert {row["queue"] for row in read(file, "items")} == {"good"}
    problems = read(file, "problems")
    assert {(row["actor_id"], row["state_key"], row["problem"]) for row in problems} == {
        ("bad", "segment-0-0", "broken"),
        ("bad", "metadata", "broken"),  # since when the first has waited
    }


@pytest.mark.parametrize("strange", [1, True, {"a": 1}, [1]])
def test_a_payload_that_is_no_text_costs_one_item(tmp_path: Path, strange: Any) -> None:
    queue = _queue(3)
    segment = json.loads(queue["segment-0-0"])
    segment["at"] = [segment["at"], None, segment["at"]]
    segment["more"] = {"1": {"item": strange, "at": 1.0}}
    _check_items(tmp_path, queue | {"segment-0-0": json.dumps(segment)}, ["0", "2"], "item")


@pytest.mark.parametrize(
    "wrong",
    [
        {"lines": "0\n1\n2\n3", "at": [1.0, 1.0, 1.0]},
        {"lines": "0\n1", "at": [1.0, 1.0, 1.0]},
        {"lines": 7},
        {"lines": None},
        {"at": [1.0]},
        {"at": [1.0, None, 1.0]},
        {"at": None},
        {"more": {"3": {}}},
        {"more": {"-1": {"item": "7"}}},
        {"more": {"one": {}}},
        {"more": [1]},
    ],
)
@pytest.mark.parametrize(("key", "taken"), [("segment-0-0", 0), ("segment-0-0", 1), ("segment-0-1", 0)])
def test_a_segment_that_does_not_add_up_costs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], key: str, taken: int
) -> None:
    """No payload is shown with the time of another."""
    monkeypatch.setattr(lanes, "SEGMENT_ITEMS", 3)
    queue = QueueDriver("x")
    queue.push(*range(9))
    if taken:
        queue.pop(count=taken)
    stored = {key: value.decode() for key, value in queue.store.items()}
    stored[key] = json.dumps(json.loads(stored[key]) | wrong)
    file = _written(tmp_path, good=_queue(2), bad=stored)
    whole = [row["queue"] for row in read(file, "items") if row["queue"] == "bad"]
    assert len(whole) == 6 - (taken if key != "segment-0-0" else 0)
    runs = read(file, "items", packed="true")
    assert sum(len(run["item"]) for run in runs if run["queue"] == "bad") == len(whole)
    problems = {(row["actor_id"], row["state_key"], row["problem"]) for row in read(file, "problems")}
    assert ("bad", key, "broken") in problems
    assert {actor for actor, _, _ in problems} == {"bad"}
    # A pop from that queue reports the broken value, too.
    queue.store[key] = stored[key].encode()
    queue.restart()
    with pytest.raises(StorageBroken, match=f"{key} cannot be decoded"):
        queue.pop(count=9)


def test_the_same_in_a_segment_of_the_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    queue = _queue(3)
    metadata = json.loads(queue["metadata"])
    metadata["_segments"]["segment-0-0"]["at"] = [MORNING, "soon", MORNING]
    _check_items(tmp_path, queue | {"metadata": json.dumps(metadata)}, ["0", "2"], "enqueued_at", key="metadata")


def _check_items(
    tmp_path: Path, queue: dict[str, str], expected: list[str], column: str, key: str = "segment-0-0"
) -> None:
    file = _written(tmp_path, good=_queue(2), bad=queue)
    items = read(file, "items")
    assert [row["item"] for row in items if row["queue"] == "bad"] == expected
    assert len([row for row in items if row["queue"] == "good"]) == 2
    [problem] = read(file, "problems")
    assert (problem["actor_id"], problem["state_key"], problem["problem"]) == ("bad", key, "broken")
    assert f": {column} is " in problem["detail"]


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize(
    ("table", "key", "change"),
    [
        ("locks", "lock-1", lambda value, strange: value | {"created_at": strange}),
        ("instances", "instance", lambda value, strange: value | {"events": strange}),
        ("instances", "instance", lambda value, strange: value | {"created_at": strange}),
        ("idempotency", "record", lambda value, strange: value | {"attempts": strange}),
        ("idempotency", "record", lambda value, strange: value | {"updated_at": strange}),
        ("history", "history-0-1-0", lambda value, strange: [value[0] | {"timestamp": strange}]),
        ("history", "instance", lambda value, strange: value | {"tail": [value["tail"][0] | {"timestamp": strange}]}),
        (
            "dead_letters",
            "segment-0-0",
            lambda value, strange: value | {"more": value["more"] | {"3": _dead(value["more"]["3"], strange)}},
        ),
    ],
)
def test_wrong_types_in_each_table(
    tmp_path: Path, table: str, key: str, change: Callable[[Any, Any], Any], strange: Any
) -> None:
    values = _everything()
    [whole] = [whole for whole in values if whole.startswith("shop||") and whole.endswith(f"||bad||{key}")]
    write(tmp_path / "state.db", values)
    before = read(tmp_path / "state.db", table)
    assert read(tmp_path / "state.db", "problems") == []
    write(tmp_path / "state.db", {whole: json.dumps(change(json.loads(values[whole]), strange))})
    after = read(tmp_path / "state.db", table)
    assert len(after) == len(before) - 1
    assert all(row in before for row in after)
    problems = read(tmp_path / "state.db", "problems")
    assert {(row["actor_id"], row["state_key"], row["problem"]) for row in problems} == {("bad", key, "broken")}
    assert all(row["detail"] for row in problems)


@pytest.mark.parametrize("text", ["{", "nothing of the kind", "NaN", "", "deep", "deepest"])
def test_a_result_in_a_history_that_is_not_json_costs_no_row(tmp_path: Path, text: str) -> None:
    depth = {"deep": 150, "deepest": 500}.get(text, 0)
    result = "[" * depth + "]" * depth or text
    event = _EVENT | {"type": "ActivityCompleted", "scheduled_seq": 1, "result": result}
    del event["fire_at"]
    values = _everything()
    write(tmp_path / "state.db", values | {"shop||OrchestrationActor||bad||history-0-1-0": json.dumps([event])})
    assert read(tmp_path / "state.db", "problems") == []
    rows = [row for row in read(tmp_path / "state.db", "history") if row["type"] == "ActivityCompleted"]
    assert [json.loads(row["data"])["result"] for row in rows] == [result]


def _dead(entry: dict[str, Any], strange: Any) -> dict[str, Any]:
    return entry | {"origin": entry["origin"] | {"dead_lettered_at": strange}}


@pytest.mark.parametrize(
    "torn", ["{", "[]", "7", '{"items_with_priority": 1}', '{"delivered": [[1]]}', "[[[[", b"\xff\xfe"]
)
def test_one_lock_or_group_hides_no_other(tmp_path: Path, torn: str | bytes) -> None:
    """Of 8 items, 2 are in each of three locks, 1 was given back, and 1 was never taken."""
    queue = QueueDriver("bad", max_locks=5)
    queue.push(*range(8))
    for _ in range(3):
        queue.lock(count=2, ttl_seconds=300)
    [back] = [queue.lock(count=1, ttl_seconds=300)]
    queue.call("Abandon", {"lock_id": back["lock_id"], "delay_seconds": 300})
    whole = {key: value.decode() for key, value in queue.store.items()}
    assert {"lock-1", "lock-2", "redelivery-0"} <= whole.keys()
    for key, locked, delayed in (("lock-1", 4, 1), ("redelivery-0", 6, 0)):
        folder = tmp_path / key
        folder.mkdir()
        file = _written(folder, good=_queue(2), bad=whole | {key: torn})
        [row] = [row for row in read(file, "queues") if row["queue"] == "bad"]
        assert (row["locked"], row["delayed"]) == (locked, delayed)
        states = [row["state"] for row in read(file, "items") if row["queue"] == "bad"]
        assert (states.count("locked"), states.count("delayed"), states.count("waiting")) == (locked, delayed, 1)
        assert len(read(file, "locks")) == locked // 2
        problems = read(file, "problems")
        assert {(row["actor_id"], row["state_key"], row["problem"]) for row in problems} == {("bad", key, "broken")}
        # What is overdue means to look at all of them.
        [later] = [row for row in read(file, "queues", at=MORNING + 1000) if row["queue"] == "bad"]
        assert later["locked"] == 0
        assert later["waiting"] == 8 - (2 if key == "lock-1" else 1)


def test_a_queue_counts_what_is_lost_until_something_is_overdue(tmp_path: Path) -> None:
    queue = QueueDriver("x")
    queue.push(*range(250))
    queue.lock(count=5)
    values: dict[str, Any] = {key: value.decode() for key, value in queue.store.items()}
    file = _written(tmp_path, bad=values | {"segment-0-1": "{"})
    [row] = read(file, "queues")
    assert (row["waiting"], row["locked"]) == (245, 5)
    assert len(read(file, "items")) == 150
    [row] = read(file, "queues", at=MORNING + 1000)
    assert (row["waiting"], row["locked"]) == (150, 0)


def test_a_row_that_is_no_text_at_all(tmp_path: Path) -> None:
    file = _written(tmp_path, good=_queue(2), bad=_queue(2) | {"segment-0-0": b"\xff\xfe{"})
    assert {row["queue"] for row in read(file, "items")} == {"good"}
    assert [(row["actor_id"], row["state_key"]) for row in read(file, "problems")] == [("bad", "segment-0-0")]


@pytest.mark.parametrize(
    ("key", "missing"),
    [
        (f"{QUEUE}bad||metadata", "segment-0-1"),
        (f"{QUEUE}bad||metadata", "segment-0-2"),
        ("shop||OrchestrationActor||bad||instance", "history-0-1-0"),
        ("shop||OrchestrationActor||bad||instance", "input"),
    ],
)
def test_what_is_referred_to_and_missing_is_told(tmp_path: Path, key: str, missing: str) -> None:
    values = _everything() | _of(bad=_queue(250), empty=_taken(3), begun=_taken(130))
    write(tmp_path / "state.db", values)
    assert read(tmp_path / "state.db", "problems") == []
    actor, _, own = key.rpartition("||")
    (tmp_path / "less").mkdir()
    write(tmp_path / "less" / "state.db", {key: value for key, value in values.items() if key != f"{actor}||{missing}"})
    [problem] = read(tmp_path / "less" / "state.db", "problems")
    assert (problem["actor_id"], problem["state_key"], problem["problem"]) == ("bad", own, "broken")
    assert problem["detail"] == f"{missing} is missing from the store."


@pytest.mark.parametrize("torn", ["{", '{"format": 99}', '{"_format": 99}'])
def test_an_actor_that_cannot_be_read_is_one_problem(
    tmp_path: Path, torn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """However many values it has that cannot be read without it."""
    values = _everything() | _of(bad=_queue(250))
    for key in (f"{QUEUE}bad||metadata", "shop||OrchestrationActor||bad||instance"):
        values[key] = torn
    write(tmp_path / "state.db", values)
    problems = read(tmp_path / "state.db", "problems")
    assert sorted((row["actor_id"], row["state_key"]) for row in problems) == [("bad", "instance"), ("bad", "metadata")]
    assert {row["instance_id"] for row in read(tmp_path / "state.db", "history")} == {"good"}
    # The part of a history that is passed over is still told, by whose fault it is.
    assert "history: skipped 2 rows" in caplog.text
    assert "for example instance of bad" in caplog.text


def test_actors_of_another_type_are_told_of_as_such(tmp_path: Path) -> None:
    values = {key.replace("PushPopActor", "Orders"): value for key, value in _of(bad=_queue(3)).items()}
    values["shop||Orders||bad||segment-0-0"] = "{"
    write(tmp_path / "state.db", values)
    foreign = read(tmp_path / "state.db", "problems")
    assert [(row["actor_type"], row["problem"], row["count"]) for row in foreign] == [
        ("Orders", "foreign", len(values))
    ]
    own = read(tmp_path / "state.db", "problems", actor_type="Orders")
    assert [(row["actor_type"], row["state_key"], row["problem"]) for row in own] == [
        ("Orders", "segment-0-0", "broken")
    ]


def test_problems_keep_no_payloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.spark.decode import arrow as batches

    kept: list[int] = []

    class Watched(batches.RunBlock):
        def add(self, *given: Any) -> None:
            super().add(*given)
            kept.append(self.length)

    monkeypatch.setattr("holdfast.spark.decode.tables.RunBlock", Watched)
    monkeypatch.setattr("holdfast.spark.decode.decoder._PAGE_ROWS", 32)
    file = _written(tmp_path, **{f"q-{number}": _queue(100) for number in range(40)})
    assert read(file, "problems") == []
    assert sum(kept) >= 4000
    # No more than a page of rows has.
    assert max(kept) <= 3200


def _queue(items: int) -> dict[str, str | bytes]:
    queue = QueueDriver("x")
    queue.push(*range(items))
    return {key: value.decode() for key, value in queue.store.items()}


def _taken(items: int) -> dict[str, str | bytes]:
    """A queue whose first items are gone for good, and which may be empty."""
    queue = QueueDriver("x")
    queue.push(*range(items))
    queue.pop(count=min(items, 100))
    return {key: value.decode() for key, value in queue.store.items()}


def _of(**queues: dict[str, Any]) -> dict[str, Any]:
    return {f"{QUEUE}{name}||{key}": value for name, queue in queues.items() for key, value in queue.items()}


def _written(folder: Path, **queues: dict[str, Any]) -> Path:
    write(folder / "state.db", _of(**queues))
    return folder / "state.db"


def _everything() -> dict[str, str]:
    """Two of each kind: ``good`` and ``bad``."""
    values: dict[str, str] = {}
    for name in ("good", "bad"):
        queue = QueueDriver(name, max_locks=5)
        queue.push(*range(4))
        queue.lock(count=1, ttl_seconds=300)
        queue.lock(count=1, ttl_seconds=300)
        stored = {key: json.loads(value) for key, value in queue.store.items()}
        stored["segment-0-0"]["more"] = {str(number): {"origin": _ORIGIN} for number in range(4)}
        values |= {f"{QUEUE}{name}||{key}": json.dumps(value) for key, value in stored.items()}
        instance = f"shop||OrchestrationActor||{name}||"
        values[f"{instance}instance"] = json.dumps(_HEAD)
        values[f"{instance}history-0-1-0"] = json.dumps([_EVENT])
        values[f"{instance}input"] = json.dumps("null")
        record = f"shop||IdempotencyActor||{name}||"
        values[f"{record}record"] = json.dumps(_RECORD)
        values[f"{record}key"] = json.dumps({"tenant": "default", "key": name})
    return values


_ORIGIN = {
    "reason": "rejected",
    "attempts": 1,
    "last_error": None,
    "original_queue": "orders",
    "original_partition": 0,
    "original_id": "0-0-0-0",
    "idempotency_key": None,
    "dead_lettered_at": MORNING,
}
_EVENT = {
    "type": "TimerCreated",
    "seq": 1,
    "execution_id": 1,
    "timestamp": MORNING,
    "fire_at": MORNING,
}
_HEAD = {
    "format": FORMAT,
    "status": "RUNNING",
    "name": "written",
    "version": "",
    "execution_id": 1,
    "created_at": MORNING,
    "updated_at": MORNING,
    "ended_at": None,
    "parent": None,
    "events": 2,
    "segments": 1,
    "tail": [_EVENT | {"seq": 2}],
    "values": {},
    "external": ["input"],
    "generation": 0,
    "earlier_executions": [],
}
_RECORD = {"status": "SUCCESS", "owner": "o", "attempts": 1, "updated_at": MORNING, "expires_at": MORNING + 1000}
