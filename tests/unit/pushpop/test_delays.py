"""Delayed items, and items whose time to live is over."""

from __future__ import annotations

from unittest.mock import patch

from holdfast.pushpop.core import delayed as delayed_items
from holdfast.pushpop.core.dedup import CLAIM_LEEWAY
from holdfast.pushpop.core.delayed import RISE_AT_ONCE
from holdfast.pushpop.core.item_store import EXPIRED_AT_ONCE
from tests.support.queue_driver import QueueDriver


def test_a_delayed_item_comes_when_it_is_due() -> None:
    queue = QueueDriver()
    [item_id] = queue.call("Push", {"item": "later", "delay_seconds": 5})["ids"]
    assert queue.pop() == []
    stats = queue.call("Stats")
    assert (stats["count"], stats["delayed"], stats["priorities"]) == (1, 1, {})
    queue.pass_time(5.1)
    answer = queue.call("PopWithAck", {})
    assert answer["items"] == ["later"]
    assert answer["messages"][0]["id"] == item_id
    assert queue.call("Acknowledge", {"lock_id": answer["lock_id"]})["items_acknowledged"] == 1
    assert set(queue.store) == {"metadata"}


def test_due_items_come_in_order_of_due_time_then_of_pushing() -> None:
    queue = QueueDriver()
    for item, delay in (("c", 3), ("a", 1), ("d", 3), ("b", 2)):
        queue.call("Push", {"item": item, "delay_seconds": delay})
    queue.restart()
    queue.push("now")
    queue.pass_time(10)
    queue.push("last")
    assert queue.waiting() == ["now", "a", "b", "c", "d", "last"]
    assert queue.pop(10) == ["now", "a", "b", "c", "d", "last"]
    assert set(queue.store) == {"metadata"}


def test_what_is_given_back_with_a_delay_is_first_when_it_is_due() -> None:
    queue = QueueDriver()
    queue.push("a", "b", "c")
    lock = queue.lock(2)["lock_id"]
    queue.call("Abandon", {"lock_id": lock, "delay_seconds": 10, "error": "not yet"})
    assert queue.waiting() == ["c"]
    assert queue.call("Stats")["delayed"] == 2
    queue.restart()
    queue.pass_time(10)
    assert queue.waiting() == ["a", "b", "c"]


def test_an_item_nobody_took_in_time_is_dropped_and_counted() -> None:
    queue = QueueDriver(default_ttl_seconds=60)
    queue.push("a", "b")
    queue.call("Push", {"item": "c", "ttl_seconds": 600})
    queue.pass_time(60.1)
    assert queue.waiting() == ["c"]
    stats = queue.call("Stats")
    assert (stats["count"], stats["counters"]["ttl_expired"]) == (1, 2)
    queue.pass_time(600)
    assert queue.call("Stats")["count"] == 0
    assert set(queue.store) == {"metadata", "config"}


def test_expired_items_become_dead_letters_when_configured() -> None:
    queue = QueueDriver(default_ttl_seconds=60, expired_to_dead_letters=True)
    queue.push("a", "b")
    queue.call("Push", {"item": "c", "delay_seconds": 30})
    queue.pass_time(60.1)
    transfer = queue.call("Transferred")["next"]
    assert [entry["stored"]["origin"]["reason"] for entry in transfer["items"]] == ["expired", "expired"]
    assert [entry["stored"]["item"] for entry in transfer["items"]] == ['"a"', '"b"']
    queue.call("Transferred", {"number": transfer["number"]})
    queue.pass_time(30)
    assert queue.call("Transferred")["next"]["items"][0]["stored"]["item"] == '"c"'


def test_a_locked_item_may_expire_only_when_it_comes_back() -> None:
    queue = QueueDriver(default_ttl_seconds=10)
    queue.push("a")
    lock = queue.lock(ttl_seconds=100)["lock_id"]
    queue.pass_time(50)
    assert queue.call("Stats")["counters"]["ttl_expired"] == 0
    queue.call("Abandon", {"lock_id": lock})
    stats = queue.call("Stats")
    assert (stats["count"], stats["counters"]["ttl_expired"]) == (0, 1)
    assert queue.pop() == []


def test_revoked_items_are_passed_over() -> None:
    queue = QueueDriver()
    ids = queue.push("a", "b", "c")
    [later] = queue.call("Push", {"item": "d", "delay_seconds": 1})["ids"]
    for item_id in (ids[1], later):
        assert queue.call("Revoke", {"id": item_id}) == {"success": True, "purged": 1}
        assert queue.call("Revoke", {"id": item_id})["error_code"] == "NOT_FOUND"
    queue.restart()
    queue.pass_time(5)
    lock = queue.lock(5)
    assert lock["items"] == ["a", "c"]
    assert queue.call("Revoke", {"id": ids[0]})["error_code"] == "CONFLICT"
    queue.call("Acknowledge", {"lock_id": lock["lock_id"]})
    assert set(queue.store) == {"metadata"}


def test_completed_items_leave_their_locks() -> None:
    queue = QueueDriver(max_locks=2)
    ids = queue.push("a", "b", "c", "d")
    first, second = queue.lock(2)["lock_id"], queue.lock(1)["lock_id"]
    answer = queue.call("Complete", {"ids": [ids[0], ids[2], "0-0-99-0", "nonsense", "1-0-0-0"]})
    assert (answer["completed"], answer["ignored"]) == (2, 3)
    assert queue.call("Acknowledge", {"lock_id": second})["error_code"] == "INVALID_LOCK_ID"
    refused = queue.call("Complete", {"ids": [ids[3], ids[1]]})
    assert (refused["error_code"], refused["completed"], refused["not_leased"]) == ("NOT_LEASED", 1, [ids[3]])
    assert queue.call("Acknowledge", {"lock_id": first})["error_code"] == "LOCK_NOT_FOUND"
    assert queue.pop(5) == ["d"]


def test_some_items_of_a_lock_are_given_back_or_become_dead_letters() -> None:
    queue = QueueDriver()
    ids = queue.push("a", "b", "c")
    lock = queue.lock(3)["lock_id"]
    assert queue.call("Abandon", {"lock_id": lock, "ids": ["0-0-9-9"]})["error_code"] == "INVALID_REQUEST"
    assert queue.call("Abandon", {"lock_id": lock, "ids": [ids[1]]})["items_acknowledged"] == 1
    assert queue.call("DeadLetter", {"lock_id": lock, "ids": [ids[0]]})["items_acknowledged"] == 1
    assert queue.waiting() == ["b"]
    assert queue.call("Acknowledge", {"lock_id": lock})["items_acknowledged"] == 1


def test_a_dedup_id_answers_the_first_id_inside_the_window() -> None:
    queue = QueueDriver()
    body = {"items": [{"item": 1, "dedup_id": "x"}, {"item": 2, "dedup_id": "x"}, {"item": 3}]}
    first = queue.call("Push", body)
    assert first["count"] == 2
    assert first["ids"][0] == first["ids"][1]
    queue.pop(5)
    queue.restart()
    again = queue.call("Push", {"item": 4, "dedup_id": "x"})
    assert (again["count"], again["ids"]) == (0, [first["ids"][0]])
    queue.pass_time(301)
    assert queue.call("Push", {"item": 5, "dedup_id": "x"})["count"] == 1


def test_a_dedup_id_that_belongs_to_another_partition_is_not_pushed_here() -> None:
    queue = QueueDriver(partitions=3)
    queue.push("no id")
    queue.call("Push", {"item": 1, "dedup_id": "here"})
    claim = {"dedup_ids": ["here", "there", "there"], "partition": 2}
    assert queue.call("Claim", claim)["partitions"] == [0, 2, 2]
    queue.restart()
    refused = queue.call("Push", {"items": [{"item": 2}, {"item": 3, "dedup_id": "there"}]})
    assert refused["error_code"] == "CONFLICT"
    assert queue.call("Stats")["count"] == 2
    queue.pass_time(301 + CLAIM_LEEWAY)
    assert queue.call("Push", {"item": 3, "dedup_id": "there"})["count"] == 1


def test_capacity_and_rate_refuse_and_store_nothing() -> None:
    queue = QueueDriver(capacity=2)
    queue.push("a")
    refused = queue.call("Push", {"items": [{"item": 1}, {"item": 2}]})
    assert (refused["error_code"], refused["retry_after"]) == ("CAPACITY", 1)
    assert queue.call("SetConfig", {"capacity": None, "rate_per_second": 2})["capacity"] is None
    assert len(queue.push("b", "c", "d")) == 3
    assert queue.call("Push", {"item": "e"})["error_code"] == "RATE_LIMITED"
    queue.pass_time(2)
    assert queue.push("f")
    assert queue.call("SetConfig", {"capacity": 3})["error_code"] == "INVALID_REQUEST"
    assert queue.call("SetConfig", {"partitions": 2})["partitions"] == 2
    assert queue.call("SetConfig", {"partitions": 1})["error_code"] == "INVALID_REQUEST"


def test_dead_letters_go_back_to_where_they_came_from() -> None:
    queue, letters = QueueDriver("orders"), QueueDriver("orders-deadletter")
    queue.push("a", "b", "c")
    queue.call("DeadLetter", {"lock_id": queue.lock(3)["lock_id"], "reason": "no"})
    transfer = queue.call("Transferred")["next"]
    letters.call("Receive", transfer)
    queue.call("Transferred", {"number": transfer["number"]})
    page = letters.call("DeadLetters", {"limit": 2})
    assert [entry["item"] for entry in page["dead_letters"]] == ["a", "b"]
    rest = letters.call("DeadLetters", {"cursor": page["next_cursor"]})
    assert [entry["item"] for entry in rest["dead_letters"]] == ["c"]
    assert "next_cursor" not in rest
    assert letters.call("Redrive", {"ids": [page["dead_letters"][1]["id"]]})["redriven"] == 1
    assert letters.call("Redrive", {"max": 1})["redriven"] == 1
    assert letters.call("Stats")["count"] == 1
    while transfer := letters.call("Transferred")["next"]:
        queue.call("Receive", transfer)
        letters.call("Transferred", {"number": transfer["number"]})
    answer = queue.call("Pop", {"count": 5})
    assert answer["items"] == ["b", "a"]
    assert [message["delivery_count"] for message in answer["messages"]] == [1, 1]
    assert queue.call("Stats")["dead_letter_queue"] == "orders-deadletter"


def test_a_purge_takes_what_is_delayed_too() -> None:
    queue = QueueDriver(max_locks=5)
    queue.call("Push", {"items": [{"item": n, "delay_seconds": 1 + n % 3} for n in range(250)]})
    queue.pass_time(2)
    lock = queue.lock(3)
    assert queue.call("Purge")["purged"] == 247
    queue.pass_time(20)
    assert queue.pop() == []
    queue.call("Stats")
    assert queue.call("Acknowledge", {"lock_id": lock["lock_id"]})["items_acknowledged"] == 3
    queue.call("Stats")
    assert set(queue.store) == {"metadata", "config"}


def test_a_delayed_item_that_fell_due_keeps_its_place_on_the_shelf() -> None:
    queue = QueueDriver()
    queue.call("Push", {"item": "a", "delay_seconds": 1})
    queue.pass_time(2)
    assert queue.waiting() == ["a"]
    queue.restart()
    queue.call("Push", {"item": "b", "delay_seconds": 1})
    queue.pass_time(2)
    assert queue.pop(5) == ["a", "b"]


def test_delayed_items_that_expire_are_sent_on_in_parcels_of_bounded_size() -> None:
    queue = QueueDriver(expired_to_dead_letters=True)
    large = "x" * 500_000
    queue.call("Push", {"items": [{"item": large, "delay_seconds": 1, "ttl_seconds": 1} for _ in range(10)]})
    queue.pass_time(5)
    queue.settle()
    sent = None
    outgoing = []
    while transfer := queue.call("Transferred", sent)["next"]:
        outgoing.append(len(transfer["items"]))
        sent = {"number": transfer["number"]}
    assert sum(outgoing) == 10
    assert max(outgoing) * len(large) < 3 * 1024 * 1024


def test_a_queue_fuller_than_its_capacity_can_still_be_configured() -> None:
    queue, letters = QueueDriver(capacity=1), QueueDriver("orders-deadletter")
    queue.push("a")
    queue.call("DeadLetter", {"lock_id": queue.lock()["lock_id"]})
    transfer = queue.call("Transferred")["next"]
    letters.call("Receive", transfer)
    queue.call("Transferred", {"number": transfer["number"]})
    queue.push("b")
    letters.call("Redrive", {})
    queue.call("Receive", letters.call("Transferred")["next"])
    assert queue.call("Stats")["load"] == 2
    assert queue.call("SetConfig", {"max_locks": 5})["max_locks"] == 5
    assert queue.call("SetConfig", {"capacity": 1, "max_locks": 6})["max_locks"] == 6
    assert queue.call("Push", {"item": "c"})["error_code"] == "CAPACITY"


def test_what_is_pushed_while_there_is_no_rate_is_not_owed_later() -> None:
    queue = QueueDriver(rate_per_second=1)
    queue.push("a")
    queue.call("SetConfig", {"rate_per_second": None})
    queue.push(*range(1000))
    queue.call("SetConfig", {"rate_per_second": 1})
    queue.pass_time(2)
    assert queue.push("b")


def test_what_falls_due_together_is_saved_in_bounded_pieces() -> None:
    """A save that daprd refuses for its size would be refused for ever."""
    queue = QueueDriver()
    large = "x" * 1_000_000
    for number in range(40):
        queue.call("Push", {"item": [number, large], "delay_seconds": 10, "priority": number % 2})
    queue.call("Push", {"item": "later", "delay_seconds": 11})
    queue.pass_time(12)
    turns = 0
    while queue.queue.store.delayed_items.waiting:
        assert queue.queue.next_deadline(queue.now) <= queue.now
        queue.turn()
        assert queue.cost.bytes_written < 4 * 1024 * 1024
        turns += 1
        assert turns < 100
    assert [queue.pop()[0][0] for _ in range(20)] == list(range(0, 40, 2))
    assert queue.pop() == ["later"]
    assert [queue.pop()[0][0] for _ in range(20)] == list(range(1, 40, 2))
    assert set(queue.store) == {"metadata"}


def test_what_expires_together_is_withdrawn_in_bounded_pieces() -> None:
    """Chunks in the middle are rewritten, with gaps between the items that stay."""
    queue = QueueDriver(expired_to_dead_letters=True)
    for number in range(20):
        queue.call("Push", {"item": [number, "x" * 1_000_000], "ttl_seconds": 10 if number else 600})
    queue.pass_time(11)
    while (deadline := queue.queue.store.next_moment()) is not None and deadline <= queue.now:
        queue.turn()
        assert queue.cost.bytes_written < 4 * 1024 * 1024
    assert queue.call("Stats")["counters"]["ttl_expired"] == 19


def test_a_pop_passes_a_bounded_number_of_expired_items() -> None:
    """A later pop, or the queue's own expiry, gets past them to the items that have not expired."""
    queue = QueueDriver(expired_to_dead_letters=True)
    count = 10 * EXPIRED_AT_ONCE
    queue.pass_time(0.05)
    for start in range(0, count, 1000):
        queue.call("Push", {"items": [{"item": start + n, "ttl_seconds": 10} for n in range(1000)]})
    queue.push("wanted", "last")
    # They have expired, and the next tenth of a second, in which the calendar says so, has not come.
    queue.pass_time(10.01)
    pops = 0
    while not (found := queue.pop(1)):
        pops += 1
        assert queue.cost.keys_written <= 2 * EXPIRED_AT_ONCE
        assert queue.queue.available
    assert found == ["wanted"]
    assert pops == 9
    stats = queue.call("Stats")
    assert (stats["count"], stats["counters"]["ttl_expired"]) == (1, count)


def test_an_acknowledge_passes_a_bounded_number_of_files() -> None:
    """However many there were between the one it frees and the next one that is wanted."""
    with patch.object(delayed_items, "FILE_ITEMS", 1):
        queue = QueueDriver(max_locks=2)
        queue.call("Push", {"items": [{"item": n, "delay_seconds": 1} for n in range(400)]})
        queue.pass_time(2)
        queue.settle()
        lock_id = queue.lock(1)["lock_id"]
        for _ in range(4):
            queue.pop(99)
        assert len([key for key in queue.store if key.startswith("delayed-")]) == 4
        queue.call("Acknowledge", {"lock_id": lock_id})
        assert queue.cost.keys_read <= RISE_AT_ONCE + 5
        queue.restart()
        lowest = []
        for _ in range(3):  # the rest, as others are done with
            queue.pop(1)
            assert queue.cost.keys_read <= RISE_AT_ONCE + 10
            _, _, low, *_ = queue.value("metadata")["_delayed"]
            lowest.append(low)
        assert lowest == [100, 150, 200]
