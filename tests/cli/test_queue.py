"""``holdfast queue`` as people and scripts see it."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from holdfast.local.ports import free_port

if TYPE_CHECKING:
    from tests.cli.conftest import Command


def rows(output: str) -> list[list[str]]:
    """The lines of a table, cell by cell; the columns stand at least two blanks apart."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in output.splitlines() if line.strip()]


def test_push_and_pop_an_argument(holdfast: Command, name: str) -> None:
    pushed = holdfast("queue", "push", name, '{"id": 1, "text": "ä"}', "--priority", "2")
    assert (pushed.code, pushed.error) == (0, "")
    popped = holdfast("queue", "pop", name)
    assert popped.code == 0
    header, _, row = rows(popped.output)
    assert header == ["id", "priority", "delivery", "pushed", "item"]
    assert (row[0], row[1], row[2], row[4]) == (pushed.output.strip(), "2", "1", '{"id": 1, "text": "ä"}')
    assert holdfast("queue", "stats", name, "--json").json()["count"] == 0


def test_push_many_arguments(holdfast: Command, name: str) -> None:
    pushed = holdfast.queue("push", name, "1", "null", '"text"')
    assert (pushed.code, pushed.output) == (0, f"3 items pushed to {name}\n")
    assert holdfast.queue("pop", name, "--count", "9", "--json").json()["items"] == [1, None, "text"]


def test_push_standard_input_as_json_lines(holdfast: Command, name: str) -> None:
    lines = "\n".join(json.dumps({"n": number}) for number in range(2500))
    pushed = holdfast.queue("push", name, "--json", typed=f"{lines}\n\n")
    assert (pushed.code, pushed.error) == (0, "")
    assert [answer["count"] for answer in pushed.lines()] == [1000, 1000, 500]
    assert len(set().union(*(answer["ids"] for answer in pushed.lines()))) == 2500
    peeked = holdfast.queue("peek", name, "--count", "3", "--json").json()
    assert peeked["items"] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_push_a_file(holdfast: Command, name: str) -> None:
    (holdfast.folder / "items.jsonl").write_text('{"a": 1}\n12345678901234567890123\n')
    pushed = holdfast.queue("push", name, "--file", str(holdfast.folder / "items.jsonl"))
    assert (pushed.code, pushed.output) == (0, f"2 items pushed to {name}\n")
    assert '"items":[{"a":1},12345678901234567890123]' in holdfast.queue("pop", name, "--count", "2", "--json").output


def test_a_line_that_is_not_json_is_named_and_what_came_before_stays(holdfast: Command, name: str) -> None:
    lines = [*map(str, range(1500)), "{oops", "1"]
    pushed = holdfast.queue("push", name, typed="\n".join(lines))
    assert pushed.code == 2
    assert "1,000 items were pushed before this." in pushed.error
    assert "Line 1,501 is not JSON" in pushed.error
    assert holdfast.queue("stats", name, "--json").json()["count"] == 1000


def test_an_argument_that_is_not_json_is_explained(holdfast: Command, name: str) -> None:
    pushed = holdfast.queue("push", name, "1", "text")
    assert pushed.code == 2
    assert "'text' is not JSON" in pushed.error
    assert "A string needs its quotes" in pushed.error
    assert holdfast.queue("stats", name, "--json").json()["count"] == 0


def test_an_empty_queue_is_exit_code_3(holdfast: Command, name: str) -> None:
    for command in ("pop", "peek"):
        ended = holdfast.queue(command, name)
        assert (ended.code, ended.output, ended.error) == (3, "", f"{name} has no waiting items.\n")
    asked = holdfast.queue("pop", name, "--json")
    assert (asked.code, asked.json()["count"]) == (3, 0)


def test_pop_under_a_lock_and_every_way_to_answer_for_it(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, '"a"', '"b"')
    popped = holdfast.queue("pop", name, "--ack", "--ttl", "60")
    assert popped.code == 0
    *_, hint = popped.output.splitlines()
    assert hint.startswith(f"Locked for 1 min 0 s. When done: holdfast queue ack {name} ")
    lock_id = hint.split()[-1]

    locked = holdfast.queue("pop", name)
    assert locked.code == 4
    assert "locked" in locked.error

    extended = holdfast.queue("extend", name, lock_id, "--seconds", "100")
    assert extended.code == 0
    assert extended.output.startswith("Locked for 2 min ")

    abandoned = holdfast.queue("abandon", name, lock_id, "--error", "not today")
    assert (abandoned.code, abandoned.output) == (0, "1 item abandoned\n")
    header, _, row = rows(holdfast.queue("peek", name).output)
    assert header[4] == "last error"
    assert row[4:] == ["not today", '"a"']

    again = holdfast.queue("pop", name, "--ack", "--json").json()
    assert again["messages"][0]["delivery_count"] == 2
    letter = holdfast.queue("dead-letter", name, again["lock_id"], "--reason", "unreadable")
    assert (letter.code, letter.output) == (0, "1 item dead-lettered\n")

    last = holdfast.queue("pop", name, "--ack", "--json").json()
    acknowledged = holdfast.queue("ack", name, last["lock_id"])
    assert (acknowledged.code, acknowledged.output) == (0, "1 item acknowledged\n")
    gone = holdfast.queue("ack", name, last["lock_id"])
    assert (gone.code, gone.error) == (3, "holdfast: There is no active lock.\n")
    assert holdfast.queue("pop", f"{name}-deadletter", "--wait", "20", "--json").json()["items"] == ["a"]


@pytest.mark.parametrize("lock_id", ["-bcdefghijklmnop", "-hcdefghijklmnop", "--seconds-xyzabc"])
@pytest.mark.parametrize(
    "command", [("ack",), ("abandon", "--error", "x"), ("extend",), ("dead-letter",)], ids=" ".join
)
def test_the_id_of_a_lock_may_begin_with_a_dash(
    holdfast: Command, name: str, command: tuple[str, ...], lock_id: str
) -> None:
    ended = holdfast.queue(*command, name, lock_id)
    assert (ended.code, ended.error) == (3, "holdfast: There is no active lock.\n")


def test_stats_are_tables_for_people_and_the_answer_for_programs(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1", "2")
    holdfast.queue("push", name, "3", "--priority", "7")
    holdfast.queue("pop", name, "--ack")
    shown = rows(holdfast.queue("stats", name).output)
    assert ["queue", "waiting", "locked", "delayed", "dead letters", "oldest"] in shown
    assert any(row[:5] == [name, "2", "1", "0", "0"] for row in shown)
    assert ["7", "1"] in shown
    assert ["pushed", "3"] in shown
    answer = holdfast.queue("stats", name, "--json").json()
    assert answer["priorities"] == {"0": 1, "7": 1}
    assert answer["locks"][0]["count"] == 1


def test_in_flight(holdfast: Command, name: str) -> None:
    assert holdfast.queue("in-flight", name).output == f"{name} has no locked items.\n"
    holdfast.queue("push", name, '{"order": 1}')
    lock_id = holdfast.queue("pop", name, "--ack", "--json").json()["lock_id"]
    shown = holdfast.queue("in-flight", name)
    assert shown.output.startswith(f"Lock {lock_id[:6]}…: 1 item, until ")
    assert '{"order": 1}' in shown.output
    assert lock_id not in shown.output
    assert holdfast.queue("in-flight", name, "--json").json()["locks"][0]["items"] == [{"order": 1}]


def test_configuration_is_shown_and_changed(holdfast: Command, name: str) -> None:
    assert ["max_locks", "1"] in rows(holdfast.queue("config", name).output)
    changed = holdfast.queue("config", name, "max_locks=4", "dead_letter_queue=grave", "--json")
    assert (changed.code, changed.json()["max_locks"], changed.json()["dead_letter_queue"]) == (0, 4, "grave")
    back = holdfast.queue("config", name, "dead_letter_queue=null", "--json").json()
    assert (back["max_locks"], back["dead_letter_queue"]) == (4, None)
    for wrong in ("max_locks=many", "no_such_key=1", "max_locks"):
        assert holdfast.queue("config", name, wrong).code == 2


def test_purge_asks_first(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1", "2")
    refused = holdfast.queue("purge", name, typed="n\n")
    assert refused.code == 1
    assert f"Remove 2 waiting items of {name} for good?" in refused.error
    assert holdfast.queue("stats", name, "--json").json()["count"] == 2
    assert holdfast.queue("purge", name, typed="y\n").output == "2 items removed\n"
    assert holdfast.queue("purge", name, "--yes", "--json").json()["purged"] == 0


def test_list_has_every_queue(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1", "2", "3")
    # The list is kept off the hot path: it may be a moment behind.
    for _ in range(50):
        listed = {queue["queue"]: queue for queue in holdfast.queue("list", "--json").json()["queues"]}
        if name in listed:
            break
    assert listed[name] == {"queue": name, "count": 3, "locked": 0, "dead_letters": 0}
    assert [name, "3", "0", "0"] in rows(holdfast.queue("list").output)


def test_nobody_there_is_exit_code_5(holdfast: Command) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ended = holdfast("queue", "list", "--url", url)
    assert (ended.code, ended.output) == (5, "")
    assert ended.error == f"holdfast: Cannot reach {url}, so nothing was done: Connection refused.\n"
    told = json.loads(holdfast("queue", "push", "q", "1", "--url", url, "--json").error)
    assert (told["success"], told["error_code"]) == (False, "NOT_REACHABLE")


@pytest.mark.parametrize(
    "arguments",
    [
        ("push",),
        ("push", "q", "1", "--file", "-"),
        ("push", "q", "1", "--priority", "-1"),
        ("push", "a b", "1"),
        ("push", "q", "1", "2", "--dedup-id", "a"),
        ("push", "q", "1", "--dedup-id", "a", "--dedup-field", "id"),
        ("push", "q", "1", "--dedup-field", "id"),
        ("push", "q", "1", "--delay", "-1"),
        ("push", "q", "1", "--expire-after", "0"),
        ("complete", "q"),
        ("redrive", "q", "--max", "0"),
        ("pop", "q", "--count", "101"),
        ("pop", "q", "--wait", "-1"),
        ("stats", "q", "--url", "nowhere"),
        ("nonsense",),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2_and_a_sentence(holdfast: Command, arguments: tuple[str, ...]) -> None:
    ended = holdfast.queue(*arguments)
    assert (ended.code, ended.output) == (2, "")
    assert ended.error
    assert "Traceback" not in ended.error


def test_help_says_what_the_exit_codes_mean(holdfast: Command) -> None:
    for arguments in (("--help",), ("pop", "--help")):
        shown = holdfast("queue", *arguments).output
        assert "3  nothing there" in shown
        assert "5  the server cannot be reached" in shown


def test_what_a_payload_holds_does_not_steer_the_terminal(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, json.dumps("\x1b[31m\x9b1m\u202e[bold]:smile:"))
    shown = holdfast.queue("peek", name).output
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert r'"\u001b[31m\u009b1m\u202e[bold]:smile:"' in shown


def test_a_long_item_is_shown_whole_when_it_is_taken_for_good(holdfast: Command, name: str) -> None:
    item = json.dumps("x" * 5000)
    holdfast.queue("push", name, item)
    assert item not in holdfast.queue("peek", name).output
    assert item in holdfast.queue("pop", name).output


def test_a_bar_on_a_terminal_while_lines_are_pushed(holdfast: Command, name: str) -> None:
    (holdfast.folder / "items.jsonl").write_text("\n".join(map(str, range(5000))))
    terminal = holdfast.on_terminal("queue", "push", name, "--file", "items.jsonl")
    terminal.wait_for("5,000 items pushed")
    assert terminal.end() == 0
    assert "━" in terminal.shown
    assert "5,000 items" in terminal.shown


def test_a_terminal_with_nothing_to_push_is_told_so(holdfast: Command, name: str) -> None:
    terminal = holdfast.on_terminal("queue", "push", name)
    assert terminal.end() == 2
    assert "Nothing to push" in terminal.shown


def test_watching_on_a_terminal_until_ctrl_c(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1")
    terminal = holdfast.on_terminal("queue", "stats", name, "--watch", "--interval", "0.1")
    terminal.wait_for("per second")
    holdfast.queue("push", name, *map(str, range(41)))
    terminal.wait_for("42")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 0


def test_watching_for_programs_is_a_line_for_each_look(holdfast: Command, name: str) -> None:
    terminal = holdfast.on_terminal("queue", "stats", name, "--watch", "--interval", "0.1", "--json")
    terminal.wait_for("\n")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 0
    assert json.loads(terminal.shown.splitlines()[0])["queue"] == name


def test_a_queue_is_paused_and_resumed(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1")
    paused = holdfast.queue("pause", name)
    assert (paused.code, paused.output) == (0, f"{name} paused\n")
    popped = holdfast.queue("pop", name)
    assert (popped.code, popped.output) == (3, "")
    assert popped.error == f"{name} is paused: 'holdfast queue resume {name}' lets its items be popped.\n"
    assert "Paused: pops get nothing." in holdfast.queue("stats", name).output
    assert holdfast.queue("resume", name, "--json").json()["paused"] is False
    assert holdfast.queue("pop", name, "--json").json()["items"] == [1]


def test_an_abandon_without_a_delay_leaves_it_to_the_queue(holdfast: Command, name: str) -> None:
    holdfast.queue("config", name, "retry_delay_seconds=60", "max_locks=2")
    holdfast.queue("push", name, "1", "2")
    first, second = (holdfast.queue("pop", name, "--ack", "--json").json() for _ in range(2))
    holdfast.queue("abandon", name, first["lock_id"], "--error", "x")
    holdfast.queue("abandon", name, second["lock_id"], "--error", "x", "--delay", "0")
    assert holdfast.queue("stats", name, "--json").json()["delayed"] == 1
    assert holdfast.queue("peek", name, "--count", "2", "--json").json()["items"] == [2]


def test_a_queue_is_deleted_when_it_is_empty_or_by_force(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1", "2")
    refused = holdfast.queue("delete", name, "--yes")
    assert refused.code == 1
    assert "2 items, waiting, delayed or locked" in refused.error
    asked = holdfast.queue("delete", name, "--force", typed="n\n")
    assert asked.code == 1
    assert f"Delete the queue {name} with 2 items?" in asked.error
    forced = holdfast.queue("delete", name, "--force", "--yes")
    assert (forced.code, forced.output) == (0, f"{name} deleted, with 2 items\n")
    again = holdfast.queue("delete", name, typed="y\n")
    assert (again.code, again.output) == (0, f"{name} deleted\n")
    assert name not in [queue["queue"] for queue in holdfast.queue("list", "--json").json()["queues"]]


def test_dead_letters_are_redriven_and_deleted_by_what_they_say(holdfast: Command, name: str) -> None:
    holdfast.queue("config", name, "max_deliveries=1")
    for item, error in (("1", "timed out"), ("2", "not an order"), ("3", "not an order")):
        holdfast.queue("push", name, item)
        taken = holdfast.queue("pop", name, "--ack", "--json").json()
        holdfast.queue("abandon", name, taken["lock_id"], "--error", error)
    redriven = holdfast.queue("redrive", name, "--error-contains", "timed out")
    assert (redriven.code, redriven.output) == (0, "1 dead letter redriven\n")
    asked = holdfast.queue("delete-dead-letters", name, typed="n\n")
    assert asked.code == 1
    assert f"Delete ALL dead letters of {name} for good?" in asked.error
    for command in (("redrive", name), ("delete-dead-letters", name, "--yes")):
        refused = holdfast.queue(*command, "--before", "yesterday")
        assert refused.code == 2
        assert "--before: has to be a time" in refused.error
    none = holdfast.queue("delete-dead-letters", name, "--before", "2001-01-01", "--yes", "--json")
    assert none.json() == {"success": True, "deleted": 0}
    some = holdfast.queue("delete-dead-letters", name, "--reason", "max_deliveries", "--max", "1", "--yes")
    assert (some.code, some.output) == (0, "1 dead letter deleted\n")
    assert holdfast.queue("delete-dead-letters", name, "--yes").output == "1 dead letter deleted\n"
