"""``holdfast orchestration`` as people and scripts see it."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

from holdfast import errors
from holdfast.local.ports import free_port
from holdfast.testing import replay
from tests.cli.test_queue import rows
from tests.support import workflows

if TYPE_CHECKING:
    from tests.cli.conftest import Command


@pytest.fixture
def instance_id(name: str) -> str:
    return name.replace("queue", "run")


def finish(holdfast: Command, instance_id: str, *start: str) -> None:
    ended = holdfast.orchestration("start", *start, "--instance-id", instance_id, "--within", "30")
    assert ended.code == 0, ended.error


def test_start_prints_the_id_and_wait_the_output(holdfast: Command, instance_id: str) -> None:
    order = '{"number": 7, "lines": ["oar"]}'
    started = holdfast("orchestration", "start", "checkout", order, "--instance-id", instance_id)
    assert (started.code, started.output, started.error) == (0, f"{instance_id}\n", "")
    waited = holdfast("orchestration", "wait", instance_id, "--within", "30")
    assert (waited.code, waited.json(), waited.error) == (0, {"number": 7, "shipped": ["oar shipped"]}, "")


def test_start_without_an_id_makes_one_up(holdfast: Command) -> None:
    made = holdfast.orchestration("start", "greeting", '"ann"').output.strip()
    assert holdfast.orchestration("wait", made).json() == "ahoy ann"


def test_start_again_is_said_and_runs_nothing(holdfast: Command, instance_id: str) -> None:
    finish(holdfast, instance_id, "greeting", '"ann"')
    again = holdfast.orchestration("start", "greeting", '"bob"', "--instance-id", instance_id)
    assert (again.code, again.output, again.error) == (
        0,
        f"{instance_id}\n",
        "The instance exists already; it was not started again.\n",
    )
    told = holdfast.orchestration("start", "greeting", '"bob"', "--instance-id", instance_id, "--json")
    assert told.json() == {"instance_id": instance_id, "created": False}
    assert holdfast.orchestration("wait", instance_id).json() == "ahoy ann"


def test_start_with_tags(holdfast: Command, instance_id: str) -> None:
    tags = ("--tag", "customer=acme", "--tag", "formula=a=b")
    assert holdfast.orchestration("start", "greeting", '"ann"', *tags, "--instance-id", instance_id).code == 0
    assert holdfast.orchestration("status", instance_id, "--json").json()["tags"] == {
        "customer": "acme",
        "formula": "a=b",
    }
    shown = dict(row for row in rows(holdfast.orchestration("status", instance_id).output) if len(row) == 2)
    assert shown["tags"] == "customer=acme formula=a=b"
    for wrong in (("--tag", "customer"), ("--tag", "a=1", "--tag", "a=2"), ("--tag", "a b=1")):
        assert holdfast.orchestration("start", "greeting", '"ann"', *wrong).code == 2


def test_start_later_with_a_priority_and_an_event(holdfast: Command, instance_id: str) -> None:
    begin = ("start", "approval", "--instance-id", instance_id, "--start-at", "2999-01-01", "--priority", "2")
    dropped = holdfast.orchestration(*begin, "--event", "unknown", "--event-data", '{"a": 1}')
    assert (dropped.code, dropped.error) == (0, "The event was dropped: the instance does not wait for it.\n")
    shown = dict(row for row in rows(holdfast.orchestration("status", instance_id).output) if len(row) == 2)
    assert (shown["status"], shown["priority"]) == ("PENDING", "2")
    assert "started, to begin at 2999-01-01" in holdfast.orchestration("history", instance_id).output
    for wrong in (
        ("--start-at", "soon"),
        ("--event-data", "1"),
        ("--event", "a", "--event-data", "{"),
        ("--priority", "-1"),
    ):
        assert holdfast.orchestration("start", "approval", *wrong).code == 2


def test_the_input_from_a_file_and_an_older_version(holdfast: Command) -> None:
    path = holdfast.folder / "input.json"
    path.write_text('\n"ann"\n')
    for file, typed in ((str(path), ""), ("-", '"ann"')):
        ended = holdfast.orchestration(
            *("start", "greeting", "--file", file, "--version", "1", "--within", "30"), typed=typed
        )
        assert (ended.code, ended.json()) == (0, "hello ann")


def test_status(holdfast: Command, instance_id: str) -> None:
    holdfast.orchestration("start", "approval", "--instance-id", instance_id)
    shown = dict(row for row in rows(holdfast.orchestration("status", instance_id).output) if len(row) == 2)
    assert (shown["instance"], shown["orchestration"]) == (instance_id, "approval, version 1")
    assert (shown["status"], shown["custom status"], shown["history"]) == (
        "RUNNING",
        '"waits"',
        "2 events, execution 1",
    )
    assert "output" not in shown
    told = holdfast.orchestration("status", instance_id, "--json").json()
    assert (told["status"], told["custom_status"]) == ("RUNNING", "waits")


def test_a_long_value_does_not_make_the_other_lines_long(holdfast: Command, instance_id: str) -> None:
    finish(holdfast, instance_id, "greeting", json.dumps("a very long name " * 10))
    lines = holdfast("orchestration", "status", instance_id).output.splitlines()
    assert max(map(len, lines)) > 150
    assert [line for line in lines if line.endswith(" ")] == []


def test_a_history_people_can_read(holdfast: Command, instance_id: str) -> None:
    finish(holdfast, instance_id, "checkout", '{"number": 7, "lines": ["oar"]}')
    shown = holdfast.orchestration("history", instance_id).output
    assert shown.startswith(f"{instance_id}: checkout, version 1. COMPLETED after ")
    header, _, *events = rows(shown)[1:]
    assert header == ["#", "time", "after", "event", "what"]
    assert [event[0] for event in events] == ["1", "2", "3", "4"]
    assert [event[3].partition(" after ")[0] for event in events] == [
        *("started", "activity ship", "ship completed", "completed")
    ]
    assert events[2][4] == '"oar shipped"'
    assert events[3][4] == '{"number": 7, "shipped": ["oar shipped"]}'


def test_a_history_tells_of_events_failures_rests_and_ends(holdfast: Command, instance_id: str) -> None:
    def titles(instance_id: str) -> list[str]:
        return [
            row[3].partition(" after ")[0] for row in rows(holdfast.orchestration("history", instance_id).output)[3:]
        ]

    holdfast.orchestration("start", "approval", "--instance-id", instance_id)
    holdfast.orchestration("suspend", instance_id, "--reason", "maintenance")
    holdfast.orchestration("resume", instance_id)
    holdfast.orchestration("cancel", instance_id, "--reason", "\x1b[31mno")
    told = ["started", "waits for approved", "suspended", "resumed", "cancellation requested", "cancelled"]
    assert titles(instance_id) == told
    shown = holdfast.orchestration("history", instance_id).output
    assert "maintenance" in shown
    assert "\x1b" not in shown

    failed = f"{instance_id}-failed"
    assert holdfast.orchestration("start", "failing", '"oops"', "--instance-id", failed, "--within", "30").code == 1
    assert titles(failed) == ["started", "activity refuse", "refuse failed", "failed"]
    adding = f"{instance_id}-adding"
    holdfast.orchestration("start", "adding", "1", "--instance-id", adding)
    holdfast.orchestration("raise", adding, "numbers", "5")
    assert holdfast.orchestration("wait", adding, "--within", "30").json() == 5
    assert titles(adding) == ["started", "numbers raised, into its mailbox", "completed"]


def test_a_long_history_is_cut_unless_more_is_asked_for(holdfast: Command, instance_id: str) -> None:
    finish(holdfast, instance_id, "checkout", json.dumps({"number": 1, "lines": ["oar"] * 10}))
    cut = holdfast.orchestration("history", instance_id, "--limit", "5")
    assert cut.output.endswith("There are more; raise --limit to see them.\n")
    assert [row[0] for row in rows(cut.output)[3:-1]] == ["1", "2", "3", "4", "5"]
    told = holdfast.orchestration("history", instance_id, "--limit", "5", "--json").json()
    assert (len(told["events"]), told["next_cursor"]) == (5, "5")
    whole = holdfast.orchestration("history", instance_id, "--json").json()
    assert [event["seq"] for event in whole["events"]] == list(range(1, 23))
    assert "next_cursor" not in whole


def test_what_was_exported_can_be_replayed(holdfast: Command, instance_id: str) -> None:
    finish(holdfast, instance_id, "checkout", '{"number": 7, "lines": ["oar", "rope"]}')
    path = holdfast.folder / "history.json"
    assert holdfast.orchestration("export", instance_id, "--to", str(path)).code == 0
    exported = json.loads(path.read_text())
    assert exported == holdfast.orchestration("export", instance_id).json()
    assert (exported["instance_id"], exported["name"], exported["version"]) == (instance_id, "checkout", "1")
    replay(workflows.app, exported)
    exported["events"][2]["name"] = "sink"
    with pytest.raises(errors.NonDeterminism, match="sink"):
        replay(workflows.app, exported)


def test_raise_reaches_whoever_waits(holdfast: Command, instance_id: str) -> None:
    holdfast.orchestration("start", "approval", "--instance-id", instance_id)
    assert "the event approved, since" in holdfast.orchestration("status", instance_id).output
    dropped = holdfast.orchestration("raise", instance_id, "refused")
    assert (dropped.code, dropped.output.partition(";")[0]) == (0, "refused raised")
    assert "not delivered" in dropped.output
    raised = holdfast.orchestration("raise", instance_id, "approved", '"ann"')
    assert (raised.code, raised.output) == (0, "approved raised\n")
    assert holdfast.orchestration("wait", instance_id, "--within", "30").json() == "ann"
    late = holdfast.orchestration("raise", instance_id, "approved", '"bob"')
    assert (late.code, late.error) == (1, f"holdfast: The orchestration {instance_id} has ended.\n")


def test_a_request_prints_its_reply(holdfast: Command, instance_id: str) -> None:
    holdfast.orchestration("start", "cart", "--instance-id", instance_id)
    for number in ("3", "8"):
        replied = holdfast.orchestration("request", instance_id, "add", number, "--request-id", "first")
        assert (replied.code, replied.json()) == (0, {"total": 3})
    rejected = holdfast.orchestration("request", instance_id, "add", "--", "-1")
    assert (rejected.code, rejected.error) == (1, "holdfast: Nothing can be taken out.\n")
    late = holdfast.orchestration("request", instance_id, "add", "0", "--request-id", "slow", "--within", "0.1")
    assert (late.code, late.output) == (4, "")
    assert "no reply yet to the request slow" in late.error
    assert "the event go, since" in holdfast.orchestration("status", instance_id).output
    holdfast.orchestration("raise", instance_id, "go", '"at last"')
    assert holdfast.orchestration("reply", instance_id, "slow").json() == "at last"
    assert holdfast.orchestration("reply", instance_id, "slow", "--json").json()["request_id"] == "slow"
    history = holdfast.orchestration("history", instance_id).output
    for text in ("request add answered", "request add rejected", "Nothing can be taken out."):
        assert text in history
    for wrong, code in ((("request", instance_id, "take", "1"), 3), (("reply", instance_id, "unknown"), 3)):
        assert holdfast.orchestration(*wrong).code == code
    assert holdfast.orchestration("request", instance_id, "add", "much").code == 2


def test_raised_twice_with_one_id_it_counts_once(holdfast: Command, instance_id: str) -> None:
    holdfast.orchestration("start", "adding", "2", "--instance-id", instance_id)
    for event_id, number in (("a", "1"), ("a", "1"), ("b", "10")):
        holdfast.orchestration("raise", instance_id, "numbers", number, "--event-id", event_id)
    assert holdfast.orchestration("wait", instance_id, "--within", "30").json() == 11


def test_wait_says_why_there_is_no_output(holdfast: Command, instance_id: str) -> None:
    failed = holdfast.orchestration("start", "failing", '"sold out"', "--instance-id", instance_id, "--within", "30")
    assert (failed.code, failed.output) == (1, "")
    assert failed.error.startswith(f"holdfast: {instance_id} failed: ActivityFailed: ")
    assert "sold out" in failed.error
    told = holdfast.orchestration("wait", instance_id, "--json")
    assert (told.code, told.json()["status"]) == (1, "FAILED")

    resting = f"{instance_id}-resting"
    not_yet = holdfast.orchestration("start", "approval", "--instance-id", resting, "--within", "0")
    assert (not_yet.code, not_yet.output) == (4, "")
    assert not_yet.error == f"holdfast: {resting} has not ended yet: it is RUNNING.\n"
    cancelled = holdfast.orchestration("cancel", resting, "--reason", "no more")
    assert (cancelled.code, cancelled.output) == (0, f"{resting}: cancellation requested\n")
    ended = holdfast.orchestration("wait", resting)
    assert (ended.code, ended.error) == (1, f"holdfast: {resting} was cancelled: no more\n")


def test_delete_asks_first_and_leaves_what_runs(holdfast: Command, instance_id: str) -> None:
    holdfast.orchestration("start", "approval", "--instance-id", instance_id)
    assert holdfast.orchestration("delete", instance_id, typed="n\n").code == 1
    running = holdfast.orchestration("delete", instance_id, "--yes")
    assert (running.code, "not ended" in running.error) == (1, True)
    deleted = holdfast.orchestration("delete", instance_id, "--force", typed="y\n")
    assert (deleted.code, deleted.output) == (0, f"{instance_id} deleted\n")
    gone = holdfast.orchestration("status", instance_id)
    assert (gone.code, gone.error) == (3, f"holdfast: There is no orchestration {instance_id}.\n")


def test_list_with_filters(holdfast: Command, instance_id: str) -> None:
    finish(holdfast, instance_id, "greeting", '"ann"')
    other = f"{instance_id}-other"
    finish(holdfast, other, "greeting", '"bob"')

    def listed(*options: str) -> dict[str, str]:
        found = holdfast.orchestration("list", "--limit", "1000", "--json", *options).json()["orchestrations"]
        return {one["instance_id"]: one["status"] for one in found}

    # The list is kept off the hot path: it may be a moment behind.
    deadline = time.monotonic() + 20
    while not {instance_id, other} <= set(listed("--status", "completed")) and time.monotonic() < deadline:
        pass
    assert listed("--status", "completed", "--name", "greeting")[instance_id] == "COMPLETED"
    assert instance_id not in listed("--name", "counting") | listed("--status", "FAILED")
    assert [instance_id, "greeting 2", "COMPLETED"] in [
        row[:3] for row in rows(holdfast.orchestration("list", "--limit", "1000").output)
    ]
    cut = holdfast.orchestration("list", "--limit", "1")
    assert len(rows(cut.output)) == 4
    none = holdfast.orchestration("list", "--name", "nobody")
    assert (none.code, none.output, none.error) == (3, "", "No such instances.\n")


def test_watching_ends_with_the_orchestration(holdfast: Command, instance_id: str) -> None:
    holdfast.orchestration("start", "approval", "--instance-id", instance_id)
    terminal = holdfast.on_terminal("orchestration", "status", instance_id, "--watch", "--interval", "0.1")
    terminal.wait_for("RUNNING")
    holdfast.orchestration("raise", instance_id, "approved", '"ann"')
    terminal.wait_for("COMPLETED")
    assert terminal.end() == 0


def test_watching_ends_with_ctrl_c(holdfast: Command, instance_id: str) -> None:
    holdfast.orchestration("start", "approval", "--instance-id", instance_id)
    terminal = holdfast.on_terminal("orchestration", "status", instance_id, "--watch", "--json")
    terminal.wait_for("\n")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 0
    assert json.loads(terminal.shown.splitlines()[0])["status"] == "RUNNING"


def test_nobody_there_is_exit_code_5(holdfast: Command) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ended = holdfast("orchestration", "start", "greeting", '"ann"', "--url", url)
    assert (ended.code, ended.output) == (5, "")
    assert "nothing was done" in ended.error


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("start",), 2),
        (("start", "greeting", "ann"), 2),
        (("start", "greeting", '"ann"', "--file", "-"), 2),
        (("start", "greeting", "5"), 2),
        (("start", "nobody"), 3),
        (("start", "greeting", '"ann"', "--version", "9"), 3),
        (("start", "greeting", '"ann"', "--instance-id", "a b"), 2),
        (("status", "nobody"), 3),
        (("history", "nobody"), 3),
        (("export", "nobody"), 3),
        (("wait", "nobody"), 3),
        (("cancel", "nobody"), 3),
        (("raise", "nobody", "approved"), 3),
        (("raise", "nobody", "a b"), 2),
        (("list", "--status", "tired"), 2),
        (("nonsense",), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_refused_is_a_sentence(holdfast: Command, arguments: tuple[str, ...], code: int) -> None:
    ended = holdfast.orchestration(*arguments)
    assert (ended.code, ended.output) == (code, "")
    assert ended.error
    assert "Traceback" not in ended.error


def test_help_says_what_the_exit_codes_mean(holdfast: Command) -> None:
    for arguments in (("--help",), ("wait", "--help"), ("history", "--help")):
        assert "4  not yet" in holdfast.orchestration(*arguments).output
