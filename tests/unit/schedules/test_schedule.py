"""The state machine of a schedule."""

from __future__ import annotations

import random
from itertools import takewhile
from typing import Any

import pytest

from holdfast.errors import Capacity, InvalidRequest
from holdfast.schedules.core.schedule import MAX_BACKFILL, Definition, Outcomes, Schedule, created
from holdfast.schedules.core.ticks import tick_id


def schedule(**given: Any) -> Schedule:
    """Made at 1000, with a tick every 10 seconds."""
    definition = Definition(orchestration="report", **({"every_seconds": 10} | given))
    return created("s", definition, 1000.0, paused=False, declared=False)


def started(one: Schedule) -> list[float | None]:
    return [call.at for call in one.calls if call.method == "Start"]


def test_each_tick_starts_an_instance_once() -> None:
    one = schedule(overlap="allow")
    one.advance(1010.0, previous_ended=True)
    one.advance(1015.0, previous_ended=True)
    one.advance(1031.0, previous_ended=True)
    assert started(one) == [1010.0, 1020.0, 1030.0]
    assert len({call.instance_id for call in one.calls}) == 3


def test_a_tick_that_is_too_late_is_missed() -> None:
    one = schedule(catch_up_seconds=15, overlap="allow")
    assert one.advance(1100.0, previous_ended=True) == Outcomes(started=2, missed=8)
    assert started(one) == [1090.0, 1100.0]
    assert one.missed == 8


def test_overlapping_ticks_are_skipped() -> None:
    one = schedule()
    one.advance(1010.0, previous_ended=True)
    one.advance(1020.0, previous_ended=False)
    one.advance(1030.0, previous_ended=True)
    assert started(one) == [1010.0, 1030.0]
    assert [(result.at, result.skipped) for result in one.last] == [(1030.0, False), (1020.0, True), (1010.0, False)]


def test_one_overlapping_tick_waits_for_the_end_of_the_last() -> None:
    one = schedule(overlap="buffer_one")
    one.advance(1010.0, previous_ended=True)
    one.advance(1030.0, previous_ended=False)
    assert (started(one), one.buffered) == ([1010.0], 1020.0)
    assert one.depends_on_previous(1031.0)
    one.advance(1032.0, previous_ended=True)
    assert (started(one), one.buffered) == ([1010.0, 1020.0], None)


def test_an_overlapping_tick_may_cancel_the_last() -> None:
    one = schedule(overlap="cancel_previous")
    one.advance(1010.0, previous_ended=True)
    first = one.previous
    one.advance(1020.0, previous_ended=False)
    assert [(call.method, call.instance_id) for call in one.calls[1:]] == [("Cancel", first), ("Start", one.previous)]


def test_ticks_of_a_pause_neither_run_nor_count() -> None:
    one = schedule(catch_up_seconds=3600)
    one.pause(1005.0)
    one.advance(1045.0, previous_ended=True)
    assert one.next_ticks(1045.0) == []
    one.resume(1045.0)
    one.advance(1051.0, previous_ended=True)
    assert (started(one), one.missed) == ([1050.0], 0)


def test_a_new_definition_has_no_ticks_before_its_time() -> None:
    one = schedule()
    one.advance(1010.0, previous_ended=True)
    one.change(Definition(orchestration="report", every_seconds=1), 1015.5, paused=None, declared=False)
    one.advance(1016.0, previous_ended=True)
    assert started(one) == [1010.0, 1016.0]


def test_the_same_definition_again_changes_nothing() -> None:
    one = schedule(catch_up_seconds=3600)
    one.change(one.definition, 1055.0, paused=None, declared=False)
    one.advance(1055.0, previous_ended=True)
    assert started(one)[0] == 1010.0


def test_a_backfill_starts_past_ticks_under_their_own_ids() -> None:
    one = schedule()
    one.advance(1010.0, previous_ended=True)
    assert one.backfill(1000.0, 1030.0) == 3
    assert started(one) == [1010.0, 1000.0, 1010.0, 1020.0]
    assert one.calls[0].instance_id == one.calls[2].instance_id


def test_a_backfill_is_bounded() -> None:
    one = schedule()
    with pytest.raises(InvalidRequest):
        one.backfill(1000.0, 1000.0 + 10 * (MAX_BACKFILL + 1))
    assert one.backfill(1000.0, 1000.0 + 10 * MAX_BACKFILL) == MAX_BACKFILL
    one.backfill(1000.0, 1000.0 + 10 * MAX_BACKFILL)
    with pytest.raises(Capacity):
        one.trigger(1001.0, "x")


def test_a_year_of_seconds_is_decided_in_bounded_turns() -> None:
    one = schedule(every_seconds=1, overlap="allow")
    one.indexed = True
    decided = one.advance(1000.0 + 365 * 86400, previous_ended=True)
    assert 0 < decided.missed < 10_000
    deadline = one.next_deadline(1000.0 + 365 * 86400)
    assert deadline is not None
    assert deadline <= 1000.0 + 365 * 86400


def test_jitter_delays_a_tick_and_not_its_id() -> None:
    one = schedule(jitter_seconds=5)
    one.indexed = True
    due = one.next_deadline(1000.0)
    assert due is not None
    assert 1010.0 <= due < 1015.0
    one.advance(due, previous_ended=True)
    assert one.calls[0].instance_id == "s-19700101T001650Z"


def test_what_is_stored_reads_back() -> None:
    one = schedule(tags={"a": "b"}, overlap="buffer_one")
    one.advance(1010.0, previous_ended=True)
    one.advance(1020.0, previous_ended=False)
    one.pause(1021.0, "for now")
    assert Schedule.from_json(one.to_json(), one.calls_to_json()) == one


@pytest.mark.parametrize(
    ("zone", "expression"),
    [
        ("UTC", "0 0 1 * *"),
        ("Europe/Berlin", "30 2 * * *"),
        ("America/New_York", "30 1 * * *"),
        ("Australia/Lord_Howe", "*/30 1-2 * * *"),
        ("Asia/Kathmandu", "0 6 * * 1-5"),
    ],
)
def test_over_a_year_each_tick_starts_once_however_often_a_save_is_lost(zone: str, expression: str) -> None:
    generator = random.Random(f"{zone} {expression}")
    since, until = 1_767_225_600.0, 1_798_761_600.0  # the year 2026
    definition = Definition(orchestration="report", cron=expression, timezone=zone, overlap="allow")
    one = created("s", definition, since, paused=False, declared=False)
    one.indexed = True
    begun: list[str] = []
    now = since
    while now < until:
        due = one.next_deadline(now)
        assert due is not None
        # Reminders are late, and fire without need; the process stops and loads what was saved.
        now = max(now + 1, due + generator.uniform(-30, 50))
        turn = Schedule.from_json(one.to_json(), one.calls_to_json())
        turn.advance(now, previous_ended=True)
        if generator.random() < 0.3:
            continue  # the save failed
        sent = [call for call in turn.calls if generator.random() < 0.7]
        begun += [call.instance_id for call in sent]
        if generator.random() < 0.5:
            turn.made({call.number: None for call in sent})
        one = turn
    begun += [call.instance_id for call in one.calls]
    last = one.cursor
    expected = [tick_id("s", tick) for tick in takewhile(lambda tick: tick <= last, one.timetable.after(since))]
    assert sorted(set(begun)) == expected
    assert (one.missed, last > until - 32 * 86400) == (0, True)
