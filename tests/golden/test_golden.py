"""A store that an earlier build wrote is read by this one, and nothing changes its format unnoticed."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import AlreadyInProgress
from holdfast.idempotency.record import Record, Status, begin
from holdfast.kinds import IDEMPOTENCY_TYPE, RECORD
from holdfast.orchestration.core import history
from holdfast.orchestration.index import shard
from holdfast.orchestration.storage import record
from holdfast.pushpop.core import format_version
from holdfast.runtime.embedded import sqlite
from holdfast.testing import replay
from tests.golden.app import app
from tests.golden.recorder import STORE, Json, recorded, served, shapes, stored
from tests.support.checkout import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

#: Fields of events that take a minute, a clock that goes back, or a value that does not fit its type.
NOT_RECORDED = {
    ("OrchestrationFailed", "forced"),
    ("RequestAnswered", "error_code"),
    ("TimerCreated", "skew"),
}
GOLDEN: Json = json.loads(STORE.read_text("utf-8"))


def restore(folder: Path) -> None:
    """Writes the golden store as the data folder of a server."""
    (folder / "data").mkdir(mode=0o700)
    database = sqlite3.connect(folder / "data" / "holdfast.db")
    database.executescript(sqlite.SCHEMA)
    for table, rows in GOLDEN["tables"].items():
        for row in rows:
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT OR REPLACE INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    database.commit()
    database.close()


async def test_this_build_stores_values_of_the_same_shapes(tmp_path: Path) -> None:
    """When this fails, raise the format version of that value, and run ``python -m tests.golden.recorder``."""
    now = shapes((await recorded(tmp_path))["tables"])
    assert sorted(now - set(GOLDEN["shapes"])) == []


def test_every_field_of_every_kind_of_event_is_in_it() -> None:
    """When this fails, let the recorder store the new field, raise the format of instances, and record."""
    answers = GOLDEN["answers"]
    histories = [*answers["histories"].values(), *answers["earlier"].values()]
    found = {(event["type"], name) for events in histories for event in events for name in event}
    kinds = [kind for kind in vars(history).values() if isinstance(kind, type) and issubclass(kind, history.Event)]
    known = {(kind.__name__, field.name) for kind in kinds for field in dataclasses.fields(kind)}
    missing = {(kind, name) for kind, name in known - found if kind != "Event"}
    assert missing == NOT_RECORDED


async def test_ended_instances_read_as_they_did(tmp_path: Path) -> None:
    restore(tmp_path)
    answers = GOLDEN["answers"]
    async with served(tmp_path) as rest:
        for name in ("everything", "large", "broken", "cancelled", "overdue", "varied"):
            assert await rest.status(name) == answers["statuses"][name]
            assert await rest.history(name) == answers["histories"][name]


def stored_in(stats: Json) -> int:
    return int(stats["count"] + stats["locked"] + stats["dead_letters"])


async def test_queues_still_have_what_was_pushed(tmp_path: Path) -> None:
    restore(tmp_path)
    async with served(tmp_path) as rest:
        for name in ("plain", "held", "spread"):
            known, found = GOLDEN["answers"]["queues"][name], await rest("GET", f"queue/{name}")
            # Locks that have expired since the recording have returned their items, or made them dead letters.
            assert stored_in(found) == stored_in(known)
            assert found["config"] == known["config"]
        for name, items in GOLDEN["answers"]["peeked"].items():
            taken = []
            while (popped := await rest("POST", f"queue/{name}/pop?require_ack=true&count=100"))["count"]:
                taken += popped["items"]
                await rest("POST", f"queue/{name}/acknowledge", {"lock_id": popped["lock_id"]})
            assert [item for item in items if item not in taken] == []
        await rest("POST", "queue/narrow/pop")

        async def arrived() -> bool:
            return bool((await rest("GET", "queue/narrow/dead-letters"))["dead_letters"])

        await eventually(arrived, what="the dead letter in transfer arrives", within=60)


def test_records_still_keep_an_effect_from_happening_twice() -> None:
    """At the time of the recording: a record is kept for a year."""
    values = [value for actor, key, value in stored(GOLDEN["tables"]) if (actor, key) == (IDEMPOTENCY_TYPE, RECORD)]
    records = {record.status: record for record in map(Record.from_json, values)}
    moment = GOLDEN["recorded_at"]
    assert begin(records[Status.SUCCESS], moment, "other", 30).result == '{"receipt":7}'
    assert begin(records[Status.FAILURE], moment, "other", 30).attempts == 2
    with pytest.raises(AlreadyInProgress):
        begin(records[Status.IN_PROGRESS], moment, "other", 30)


@pytest.mark.parametrize("name", ["suspended", "blocked"])
async def test_waiting_instances_go_on(tmp_path: Path, name: str) -> None:
    restore(tmp_path)
    async with served(tmp_path) as rest:
        if name == "suspended":
            await rest("POST", "orchestrations/suspended/resume")
            await rest.raise_event("suspended", "notes", "last")
        else:
            await rest.becomes("blocked", "RUNNING")
            await rest.raise_event("blocked", "first", 1)
        assert (await rest.ended(name))["output"] == ([1, "last"] if name == "suspended" else [1, {"number": 0}])


async def test_a_rerun_goes_on(tmp_path: Path) -> None:
    restore(tmp_path)
    async with served(tmp_path) as rest:
        assert (await rest.status("again"))["rerun_of"] == GOLDEN["answers"]["statuses"]["again"]["rerun_of"]
        await rest.raise_event("again", "approved", {"by": "bob"})
        for request_id in ("r-1", "r-2"):
            await rest("POST", f"orchestrations/again/requests/price?request_id={request_id}", "oar")
        for note in ("not a number", "read me"):
            await rest.raise_event("again", "notes", note)
        ended = (await rest.ended("again"))["output"]
        # One of the failures names the child, which has another id.
        assert [text.split()[-1] for text in ended.pop("failures")] == ["stock", "negative", "ValidationError"]
        source = GOLDEN["answers"]["statuses"]["everything"]["output"]
        assert ended == {"doubled": source["doubled"], "approved": {"by": "bob"}, "note": source["note"]}


async def test_an_activity_finds_what_it_reported_before(tmp_path: Path) -> None:
    restore(tmp_path)
    async with served(tmp_path) as rest:
        assert (await rest.ended("reporting", 120))["output"] == {"counted": 2}


async def test_unread_mail_and_undelivered_effects_arrive(tmp_path: Path) -> None:
    restore(tmp_path)
    async with served(tmp_path) as rest:
        await rest("POST", "orchestrations/rounds/resume")
        await rest.raise_event("rounds", "steps", "stop")
        assert (await rest.ended("rounds"))["output"] == 80
        await rest("PUT", "queue/full/config", {"capacity": 100})
        assert (await rest.ended("crowded", 120))["status"] == "COMPLETED"


@pytest.mark.parametrize("name", ["everything", "large", "broken", "cancelled", "overdue", "again", "varied"])
def test_recorded_histories_replay(name: str) -> None:
    replay(app, {"instance_id": name, "events": GOLDEN["answers"]["histories"][name]})


def test_the_documented_formats_are_those_of_this_version() -> None:
    text = (ROOT / "docs" / "upgrading.md").read_text("utf-8")
    known = {"queues": format_version.FORMAT, "instances": record.FORMAT, "index of instances": shard.FORMAT}
    assert [what for what, number in known.items() if f"| {what} | {number} |" not in text] == []
