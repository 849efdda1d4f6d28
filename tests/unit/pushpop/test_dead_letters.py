"""Dead letters: when an item becomes one, and how it travels without being lost or doubled."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.names import partition_id
from tests.support.queue_driver import QueueDriver


def deliver(source: QueueDriver, target: QueueDriver) -> list[dict[str, Any]]:
    """Takes every parcel to its queue, as the actor does. Answers them."""
    outgoing = []
    sent = None
    while transfer := source.call("Transferred", sent)["next"]:
        assert transfer["target"] == target.name
        assert target.call("Receive", transfer) == {"success": True, "accepted": True}
        sent = {"number": transfer["number"]}
        outgoing.append(transfer)
    return outgoing


@pytest.mark.parametrize("how", ["abandoned", "expired"])
@pytest.mark.parametrize("most", [1, 2, 10])
def test_exactly_max_deliveries_then_a_dead_letter(how: str, most: int) -> None:
    queue, dead = QueueDriver(max_deliveries=most), QueueDriver("orders-deadletter")
    [item_id] = queue.push({"id": 1}, priority=3)
    for delivery in range(1, most + 1):
        locked = queue.lock()
        assert locked["messages"][0]["delivery_count"] == delivery
        queue.restart()
        if how == "abandoned":
            queue.call("Abandon", {"lock_id": locked["lock_id"], "error": f"failure {delivery}"})
        else:
            queue.pass_time(30)
    assert queue.lock()["items"] == []
    deliver(queue, dead)
    answer = dead.call("Pop")
    assert answer["items"] == [{"id": 1}]
    [message] = answer["messages"]
    assert message["priority"] == 3
    letter = message["dead_letter"]
    assert (letter["original_queue"], letter["original_partition"], letter["original_id"]) == ("orders", 0, item_id)
    assert (letter["reason"], letter["attempts"]) == ("max_deliveries", most)
    assert letter["last_error"] == (f"failure {most}" if how == "abandoned" else None)


@pytest.mark.parametrize(("asked", "reason"), [({}, "rejected"), ({"reason": "no such customer"}, "no such customer")])
def test_a_consumer_may_reject_at_once(asked: dict[str, str], reason: str) -> None:
    queue, dead = QueueDriver(), QueueDriver("orders-deadletter")
    queue.push("a", "b", "c")
    locked = queue.lock(2)
    answer = queue.call("DeadLetter", {"lock_id": locked["lock_id"], **asked})
    assert (answer["success"], answer["items_acknowledged"]) == (True, 2)
    assert queue.waiting() == ["c"]
    deliver(queue, dead)
    letters = dead.call("Pop", {"count": 10})
    assert letters["items"] == ["a", "b"]
    assert {message["dead_letter"]["reason"] for message in letters["messages"]} == {reason}


def test_of_one_lock_only_those_go_that_were_delivered_too_often() -> None:
    queue, dead = QueueDriver(max_deliveries=2), QueueDriver("orders-deadletter")
    queue.push("old")
    queue.call("Abandon", {"lock_id": queue.lock()["lock_id"]})
    queue.push("young")
    queue.call("Abandon", {"lock_id": queue.lock(2)["lock_id"]})
    assert queue.waiting() == ["young"]
    deliver(queue, dead)
    assert dead.waiting() == ["old"]


def test_a_plain_pop_never_makes_a_dead_letter() -> None:
    queue = QueueDriver(max_deliveries=1)
    queue.push("x")
    assert queue.pop() == ["x"]
    assert queue.call("Transferred")["next"] is None


def test_what_was_sent_twice_is_taken_once() -> None:
    queue, dead = QueueDriver(), QueueDriver("orders-deadletter")
    queue.push("x")
    queue.call("DeadLetter", {"lock_id": queue.lock()["lock_id"]})
    transfer = queue.call("Transferred")["next"]
    queue.restart()
    assert queue.call("Transferred")["next"] == transfer, "until the other queue has it"
    assert dead.call("Receive", transfer)["accepted"]
    dead.restart()
    assert not dead.call("Receive", transfer)["accepted"]
    for _ in range(2):
        assert queue.call("Transferred", {"number": transfer["number"]})["next"] is None
    assert dead.waiting() == ["x"]


@pytest.mark.parametrize("partition", [0, 1])
def test_what_arrived_before_a_deletion_does_not_arrive_again(partition: int) -> None:
    """The sender did not hear that it arrived: its process crashed, or the reply was lost."""
    queue, dead = QueueDriver(), QueueDriver(partition_id("orders-deadletter", partition))
    queue.push("x")
    queue.call("DeadLetter", {"lock_id": queue.lock()["lock_id"]})
    transfer = queue.call("Transferred")["next"]
    assert dead.call("Receive", transfer)["accepted"]
    assert dead.pop() == ["x"]
    if partition:
        dead.call("Configure", {"config": {"partitions": 2}, "version": 2, "generation": 1})
    else:
        dead.call("FinishDeletion", {"force": False})
    dead.restart()
    assert not dead.call("Receive", transfer)["accepted"]
    # Numbers go on after a deletion of the sender, too.
    queue.call("Transferred", {"number": transfer["number"]})
    queue.call("FinishDeletion", {"force": True})
    queue.push("y")
    queue.call("DeadLetter", {"lock_id": queue.lock()["lock_id"]})
    assert dead.call("Receive", queue.call("Transferred")["next"])["accepted"]
    assert dead.waiting() == ["y"]


def test_a_parcel_goes_where_it_was_meant_to_go_when_it_was_made() -> None:
    queue = QueueDriver(max_locks=2)
    queue.push("x", "y")
    first, second = queue.lock()["lock_id"], queue.lock()["lock_id"]
    queue.call("DeadLetter", {"lock_id": first})
    queue.call("SetConfig", {"dead_letter_queue": "elsewhere"})
    queue.call("DeadLetter", {"lock_id": second})
    queue.restart()
    transfer = queue.call("Transferred")["next"]
    assert transfer["target"] == "orders-deadletter"
    assert queue.call("Transferred", {"number": transfer["number"]})["next"]["target"] == "elsewhere"


def test_a_dead_letter_on_its_way_is_neither_here_nor_lost() -> None:
    queue = QueueDriver()
    queue.push("x", "y")
    queue.call("DeadLetter", {"lock_id": queue.lock()["lock_id"]})
    assert queue.waiting() == ["y"]
    assert queue.pop() == ["y"]
    queue.call("Purge")
    queue.restart()
    transfer = queue.call("Transferred")["next"]
    assert [entry["stored"]["item"] for entry in transfer["items"]] == ['"x"']
    queue.call("Transferred", {"number": transfer["number"]})
    assert set(queue.store) <= {"metadata", "config"}


def test_a_dead_letter_queue_has_none_of_its_own() -> None:
    dead = QueueDriver("orders-deadletter", max_deliveries=1)
    dead.push("x")
    locked = dead.lock()
    answer = dead.call("DeadLetter", {"lock_id": locked["lock_id"]})
    assert (answer["success"], answer["error_code"]) == (False, "INVALID_REQUEST")
    dead.call("Abandon", {"lock_id": locked["lock_id"]})
    assert dead.lock()["messages"][0]["delivery_count"] == 2


def test_fewer_deliveries_than_an_item_already_had_end_with_its_next_return() -> None:
    queue, dead = QueueDriver(), QueueDriver("orders-deadletter")
    queue.push("x")
    for _ in range(3):
        queue.call("Abandon", {"lock_id": queue.lock()["lock_id"]})
    queue.call("SetConfig", {"max_deliveries": 2})
    assert queue.waiting() == ["x"]
    queue.call("Abandon", {"lock_id": queue.lock()["lock_id"]})
    deliver(queue, dead)
    assert dead.waiting() == ["x"]


def letter(source: str, number: int) -> dict[str, Any]:
    items = [{"priority": 0, "stored": {"item": "1", "at": 0.0}}]
    return {"source": source, "target": "orders", "number": number, "items": items}


def test_a_push_does_not_rewrite_whom_parcels_came_from() -> None:
    queue = QueueDriver()
    queue.push("one")
    before = queue.cost.bytes_written
    for number in range(500):
        assert queue.call("Receive", letter(f"queue-{number}@0", number))["accepted"]
    while queue.pop(100):
        pass
    queue.push("another")
    assert queue.cost.bytes_written < before + 200
    queue.restart()
    for number in range(500):
        assert not queue.call("Receive", letter(f"queue-{number}@0", number))["accepted"]
        assert queue.cost.keys_written == 0
    assert queue.call("Receive", letter("queue-7@0", 8))["accepted"]


def rejected(queue: QueueDriver, *items: str, to: str) -> None:
    """These items become dead letters, in parcels of their own, for one dead-letter queue."""
    queue.call("SetConfig", {"dead_letter_queue": to, "max_locks": 1})
    for item in items:
        queue.push(item)
        queue.call("DeadLetter", {"lock_id": queue.lock()["lock_id"]})


def not_taken(transfer: dict[str, Any]) -> dict[str, Any]:
    return {"number": transfer["number"], "accepted": False}


def test_a_queue_that_takes_nothing_does_not_hold_up_parcels_for_others() -> None:
    queue, open_one = QueueDriver(), QueueDriver("open")
    rejected(queue, "a", "b", to="closed")
    rejected(queue, "c", "d", to="open")
    refused = queue.call("Transferred")["next"]
    assert refused["target"] == "closed"
    transfer = queue.call("Transferred", not_taken(refused))["next"]
    while transfer:
        assert transfer["target"] == "open"
        assert open_one.call("Receive", transfer)["accepted"]
        transfer = queue.call("Transferred", {"number": transfer["number"]})["next"]
    assert open_one.waiting() == ["c", "d"]
    queue.pass_time(5)
    closed = QueueDriver("closed")
    assert [transfer["number"] for transfer in deliver(queue, closed)] == [refused["number"], refused["number"] + 1]
    assert closed.waiting() == ["a", "b"]


def test_a_queue_to_which_something_is_being_sent_is_passed_over() -> None:
    queue = QueueDriver()
    rejected(queue, "a", "b", to="slow")
    rejected(queue, "c", to="other")
    assert queue.call("Transferred", {"busy": ["slow"]})["next"]["target"] == "other"
    assert queue.call("Transferred", {"busy": ["other", "slow"]})["next"] is None


def test_pauses_between_attempts_grow_to_a_limit_and_end_with_the_first_success() -> None:
    queue = QueueDriver()
    queue.call("ConfirmIndexed")  # or the queue would have something else to do at a moment of its own
    rejected(queue, "a", "b", to="closed")
    pauses = []
    for _ in range(6):
        transfer = queue.call("Transferred")["next"]
        assert queue.call("Transferred", not_taken(transfer))["next"] is None
        again = queue.queue.next_deadline(queue.now)
        assert again is not None
        pauses.append(again - queue.now)
        queue.now = again - 0.001
        assert queue.call("Transferred")["next"] is None
        queue.now = again
    assert pauses == [5, 10, 20, 40, 40, 40]
    assert queue.call("Transferred", {"number": transfer["number"]})["next"]["number"] == transfer["number"] + 1
    queue.call("Transferred", not_taken(queue.call("Transferred")["next"]))
    assert queue.queue.next_deadline(queue.now) == queue.now + 5


@pytest.mark.parametrize("how", ["a restart", "a clock that was set back"])
def test_a_pause_never_lasts_longer_than_it_was_meant_to(how: str) -> None:
    queue = QueueDriver()
    rejected(queue, "a", to="closed")
    transfer = queue.call("Transferred")["next"]
    queue.call("Transferred", not_taken(transfer))
    if how == "a restart":
        queue.restart()
    else:
        queue.pass_time(-3600)
    assert queue.queue.next_deadline(queue.now) == queue.now + 5
    assert queue.call("Transferred")["next"]["number"] == transfer["number"]


def test_a_parcel_that_waits_for_long_makes_no_restart_slower() -> None:
    queue, open_one = QueueDriver(), QueueDriver("open")
    rejected(queue, "a", to="closed")
    for number in range(300):
        rejected(queue, f"{number}", to="open")
        transfer = queue.call("Transferred", {"busy": ["closed"]})["next"]
        open_one.call("Receive", transfer)
        queue.call("Transferred", {"number": transfer["number"]})
    queue.restart()
    assert queue.queue.transfers.waits
    assert queue.cost.keys_read < 10
    assert [entry["stored"]["item"] for entry in queue.call("Transferred")["next"]["items"]] == ['"a"']
    assert open_one.call("Stats")["count"] == 300


@pytest.mark.parametrize("number", [1, 150])
def test_deleted_ones_are_gone_after_a_restart(number: int) -> None:
    """The first ones of a long queue too, of which only the beginning of the lane is stored anew."""
    source, dead = QueueDriver(), QueueDriver("orders-deadletter")
    for first in range(0, number, 50):
        source.push(*range(first, min(number, first + 50)))
        source.call("DeadLetter", {"lock_id": source.lock(50)["lock_id"]})
        deliver(source, dead)
    dead.restart()
    assert dead.call("DeleteDeadLetters", {"max": 1})["deleted"] == 1
    dead.restart()
    assert dead.waiting() == list(range(1, number))[:100]
    assert dead.call("Stats")["counters"]["purged"] == 1
