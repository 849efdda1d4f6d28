"""``holdfast queue``: dedup ids, delays, completion by id, dead letters, other people's locks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_queue import rows

if TYPE_CHECKING:
    from tests.cli.conftest import Command


def locked(holdfast: Command, name: str, count: int = 1) -> dict[str, Any]:
    answer: dict[str, Any] = holdfast.queue("pop", name, "--ack", "--count", str(count), "--json").json()
    return answer


def test_an_item_with_an_id_is_pushed_once(holdfast: Command, name: str) -> None:
    first = holdfast.queue("push", name, "1", "--dedup-id", "a", "--idempotency-key", "k", "--for-tenant", "acme")
    again = holdfast.queue("push", name, "1", "--dedup-id", "a")
    assert (first.code, again.code, first.output) == (0, 0, again.output)
    message = holdfast.queue("peek", name, "--json").json()["messages"][0]
    assert (message["dedup_id"], message["idempotency_key"], message["tenant_id"]) == ("a", "k", "acme")
    assert holdfast.queue("stats", name, "--json").json()["count"] == 1


def test_lines_are_known_by_a_field_of_theirs(holdfast: Command, name: str) -> None:
    lines = "\n".join(json.dumps({"id": number % 3}) for number in range(5))
    pushed = holdfast.queue("push", name, "--dedup-field", "id", typed=lines)
    assert (pushed.code, pushed.output) == (0, f"5 items pushed to {name}, 2 of them duplicates\n")
    assert holdfast.queue("push", name, "--dedup-field", "id", "--json", typed=lines).json()["count"] == 0
    wrong = holdfast.queue("push", name, "--dedup-field", "id", typed='{"id": 9}\n{"no": "id"}\n')
    assert wrong.code == 2
    assert "has no field 'id'" in wrong.error


def test_items_that_come_later_and_items_that_expire(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, '"later"', "--delay", "0.3")
    holdfast.queue("push", name, '"expires"', "--expire-after", "1", "--delay", "600")
    assert holdfast.queue("stats", name, "--json").json()["delayed"] == 2
    assert holdfast.queue("pop", name).code == 3
    assert holdfast.queue("pop", name, "--wait", "20", "--json").json()["items"] == ["later"]


def test_complete_by_ids(holdfast: Command, name: str) -> None:
    holdfast.queue("config", name, "partitions=2", "max_locks=5")
    for number in range(4):
        holdfast.queue("push", name, str(number))
    ids = [message["id"] for _ in range(2) for message in locked(holdfast, name)["messages"]]
    done = holdfast.queue("complete", name, *ids)
    assert (done.code, done.output) == (0, "2 items completed\n")
    assert holdfast.queue("complete", name, ids[0]).output == "0 items completed, 1 ignored\n"
    assert holdfast.queue("complete", name, *ids, "--json").json() == {"success": True, "completed": 0, "ignored": 2}
    waiting = holdfast.queue("peek", name, "--json").json()["messages"][0]["id"]
    refused = holdfast.queue("complete", name, waiting, "--json")
    assert refused.code == 1
    assert json.loads(refused.error)["not_leased"] == [waiting]


def test_what_somebody_else_has_locked(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, '"a"')
    lock_id = locked(holdfast, name)["lock_id"]
    prefix = holdfast.queue("in-flight", name, "--json").json()["locks"][0]["lock_id_prefix"]
    assert lock_id.startswith(prefix)
    extended = holdfast.queue("extend", name, prefix, "--seconds", "100")
    assert extended.code == 0
    assert extended.output.startswith("Locked for 2 min ")
    given_back = holdfast.queue("requeue", name, prefix, "--error", "hangs", "--delay", "0.2")
    assert (given_back.code, given_back.output) == (0, "1 item abandoned\n")
    assert holdfast.queue("requeue", name, prefix).code == 3
    message = holdfast.queue("pop", name, "--wait", "20", "--json").json()["messages"][0]
    assert message["last_error"] == "hangs"


def test_give_back_and_give_up_some_of_what_is_locked(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1", "2", "3")
    taken = locked(holdfast, name, 3)
    first, second, _ = [message["id"] for message in taken["messages"]]
    assert holdfast.queue("abandon", name, taken["lock_id"], "--only", first).output == "1 item abandoned\n"
    letter = holdfast.queue("dead-letter", name, taken["lock_id"], "--only", second)
    assert letter.output == "1 item dead-lettered\n"
    assert holdfast.queue("ack", name, taken["lock_id"]).output == "1 item acknowledged\n"


def test_give_back_for_later(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1")
    assert holdfast.queue("abandon", name, locked(holdfast, name)["lock_id"], "--delay", "600").code == 0
    assert holdfast.queue("pop", name).code == 3
    assert holdfast.queue("stats", name, "--json").json()["delayed"] == 1


def test_dead_letters_are_shown_and_put_back(holdfast: Command, name: str) -> None:
    none = holdfast.queue("dead-letters", name)
    assert (none.code, none.output, none.error) == (3, "", f"{name} has no dead letters.\n")
    holdfast.queue("push", name, *map(str, range(150)))
    for count in (100, 50):
        holdfast.queue("dead-letter", name, locked(holdfast, name, count)["lock_id"], "--reason", "unreadable")
    shown = holdfast.queue("dead-letters", name, "--limit", "2")
    header, _, first, second, more = rows(shown.output)
    assert header == ["id", "from", "dead-lettered", "attempts", "reason", "last error", "item"]
    assert first[1].startswith(f"{name} 0-0-")
    assert (first[3], first[4], first[-1], second[-1]) == ("1", "unreadable", "0", "1")
    assert "There are more" in more[0]
    every = holdfast.queue("dead-letters", name, "--limit", "1000", "--json").json()
    assert len(every["dead_letters"]) == 150
    assert "next_cursor" not in every
    assert (
        len(holdfast.queue("dead-letters", f"{name}-deadletter", "--limit", "7", "--json").json()["dead_letters"]) == 7
    )

    some = holdfast.queue("redrive", name, every["dead_letters"][3]["id"])
    assert (some.code, some.output) == (0, "1 dead letter redriven\n")
    assert holdfast.queue("redrive", name, "--max", "9", "--json").json() == {"success": True, "redriven": 9}
    assert holdfast.queue("redrive", name).output == "140 dead letters redriven\n"
    assert holdfast.queue("redrive", name).output == "0 dead letters redriven\n"
    stats = holdfast.queue("stats", name, "--json").json()
    assert (stats["count"], stats["dead_letters"]) == (150, 0)


def test_dead_letters_are_put_back_from_their_own_queue_too(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1", "2")
    holdfast.queue("dead-letter", name, locked(holdfast, name, 2)["lock_id"])
    assert holdfast.queue("redrive", f"{name}-deadletter").output == "2 dead letters redriven\n"
    assert holdfast.queue("stats", name, "--json").json()["count"] == 2


def test_a_bar_on_a_terminal_while_dead_letters_are_put_back(holdfast: Command, name: str) -> None:
    holdfast.queue("push", name, "1", "2")
    holdfast.queue("dead-letter", name, locked(holdfast, name, 2)["lock_id"])
    terminal = holdfast.on_terminal("queue", "redrive", name)
    terminal.wait_for("2 dead letters redriven")
    assert terminal.end() == 0
    assert "2/2" in terminal.shown


def test_revoke(holdfast: Command, name: str) -> None:
    ids = [holdfast.queue("push", name, item).output.strip() for item in ("1", "2")]
    held = locked(holdfast, name)["messages"][0]["id"]
    assert held == ids[0]
    assert holdfast.queue("revoke", name, held).code == 1
    gone = holdfast.queue("revoke", name, ids[1])
    assert (gone.code, gone.output) == (0, f"{ids[1]} removed\n")
    assert holdfast.queue("revoke", name, ids[1]).code == 3


def test_every_key_of_the_configuration_is_explained_and_can_be_set(holdfast: Command, name: str) -> None:
    config = holdfast.queue("config", name, "--json").json()
    explained = holdfast.queue("config", "--help").output
    assert all(f"  {key} " in explained for key in config)
    changes = (
        "partitions=2",
        "capacity=100",
        "default_ttl_seconds=60",
        "rate_per_second=0.5",
        "dedup_window_seconds=9",
    )
    changed = holdfast.queue("config", name, *changes, "expired_to_dead_letters=true", "--json").json()
    assert {f"{key}={changed[key]}" for key in config} >= set(changes)
    assert changed["expired_to_dead_letters"] is True
    assert holdfast.queue("config", name, "partitions=1").code == 2
    assert holdfast.queue("config", name, "capacity=null", "--json").json()["capacity"] is None


@pytest.mark.parametrize("limit", ["capacity=1", "rate_per_second=0.1"])
def test_no_room_is_exit_code_7(holdfast: Command, name: str, limit: str) -> None:
    holdfast.queue("config", name, limit)
    assert holdfast.queue("push", name, "1").code == 0
    refused = holdfast.queue("push", name, "2", "--timeout", "0.5")
    assert (refused.code, refused.output) == (7, "")
    assert holdfast.queue("stats", name, "--json").json()["count"] == 1
