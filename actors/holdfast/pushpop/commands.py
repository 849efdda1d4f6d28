"""What can be asked of a queue, by name: a checked request in, an answer as callers see it out. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidRequest, QueueLocked
from holdfast.pushpop import replies, requests
from holdfast.pushpop.core import MAX_POP_BYTES, MAX_TTL
from holdfast.pushpop.items import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.pushpop.core import Queue, Steps
    from holdfast.pushpop.items import Delivery

Answer = dict[str, Any]

#: Instead of an answer, when that would have grown too large together with those before it.
LATER: Answer = {"later": True}


@dataclass(slots=True)
class Moment:
    """What a turn gives to its commands from outside, and what they have in common."""

    now: float
    #: An id for a lock, should one be made.
    new_lock_id: Callable[[], str]
    #: Whom to tell when there is something to pop.
    doorbells: set[str]
    #: The size of the items in all answers so far.
    answered_bytes: int = 0


def execute(queue: Queue, moment: Moment, method: str, data: Any) -> Steps[Answer]:
    """Runs one command. A refusal is an answer too.

    What is not the caller's fault is raised, and ends the turn; only one that changes nothing fails alone.
    """
    command = _COMMANDS.get(method)
    try:
        if command is None:
            raise InvalidRequest(f"There is no method {method}.")
        return (yield from command(queue, moment, data))
    except HoldfastError as error:
        if error.status >= 500 and method not in _LOOKING:
            raise
        return replies.refused(error)


def execute_all(queue: Queue, moment: Moment, calls: Sequence[tuple[str, Any]]) -> Steps[list[Answer]]:
    """Runs as many of them as fit into one answer; the others are answered with ``LATER``, and are to come again."""
    answers: list[Answer] = []
    for method, data in calls:
        if moment.answered_bytes >= MAX_POP_BYTES and method in _ANSWER_ITEMS:
            answers.append(LATER)
        else:
            answers.append((yield from execute(queue, moment, method, data)))
    return answers


def _push(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Push.parse(data)
    items = [(entry.priority, Item(entry.text(), moment.now, entry.idempotency_key)) for entry in request.items]
    return replies.pushed((yield from queue.push(items)))


def _pop(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Pop.parse(data)
    try:
        taken = yield from queue.pop(request.count)
    except QueueLocked:
        _leave_doorbell(moment, request)
        raise
    if not taken:
        _leave_doorbell(moment, request)
    return replies.popped(_counted(moment, taken), queue.partition)


def _pop_with_ack(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.PopWithAck.parse(data)
    try:
        taken, lock = yield from queue.pop_with_ack(
            moment.now, request.count, request.ttl_seconds, moment.new_lock_id()
        )
    except QueueLocked:
        _leave_doorbell(moment, request)
        raise
    if not taken:
        _leave_doorbell(moment, request)
    return replies.popped(_counted(moment, taken), queue.partition, lock)


def _counted(moment: Moment, deliveries: list[Delivery]) -> list[Delivery]:
    moment.answered_bytes += sum(delivery.item.size for delivery in deliveries)
    return deliveries


def _leave_doorbell(moment: Moment, request: requests.Pop) -> None:
    if request.doorbell:
        moment.doorbells.add(request.doorbell)


def _acknowledge(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Acknowledge.parse(data)
    yield from ()
    return replies.answered("acknowledged", queue.acknowledge(request.lock_id))


def _abandon(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Abandon.parse(data)
    yield from ()
    return replies.answered("given back", queue.abandon(moment.now, request.lock_id, request.error))


def _extend_lock(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.ExtendLock.parse(data)
    yield from ()
    # What is added to a time has to be a number that can be one.
    additional = min(request.additional_ttl_seconds, MAX_TTL)
    expires_at = queue.extend(moment.now, request.lock_id, additional)
    return {"success": True, "lock_expires_at": expires_at}


def _dead_letter(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.DeadLetter.parse(data)
    yield from ()
    return replies.answered("dead-lettered", queue.dead_letter(moment.now, request.lock_id, request.reason))


def _peek(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Peek.parse(data)
    return replies.peeked(_counted(moment, (yield from queue.peek(request.count))), queue.partition)


def _in_flight(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    locks = yield from queue.locked()
    for _, deliveries in locks:
        _counted(moment, deliveries)
    return replies.in_flight(locks, queue.partition)


def _stats(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    oldest = yield from queue.oldest()
    locks = list(queue.holdings.locks.values())
    return {
        "queue": queue.name,
        "count": queue.count,
        "priorities": {str(priority): lane.count for priority, lane in sorted(queue.lanes.items())},
        "locked": sum(len(lock.taken) for lock in locks),
        "delayed": 0,
        "oldest_age_seconds": None if oldest is None else max(0.0, moment.now - oldest),
        "locks": [replies.lock_shown(lock) for lock in locks],
        "counters": dict(queue.counters),
        "config": queue.config.model_dump(),
        "dead_letter_queue": queue.dead_letter_queue,
    }


def _purge(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    yield from ()
    return {"success": True, "purged": queue.purge()}


def _get_config(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    yield from ()
    return queue.config.model_dump()


def _set_config(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    if not isinstance(data, dict):
        raise InvalidRequest("A configuration is an object.")
    yield from ()
    queue.configure(queue.config.changed(data))
    return queue.config.model_dump()


def _receive(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Receive.parse(data)
    items = [(entry.priority, Item.from_json(entry.stored.model_dump())) for entry in request.items]
    return {"success": True, "taken": (yield from queue.receive(request.source, request.number, items))}


def _transferred(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    """Answers what is to be transferred next."""
    if data is not None:
        queue.transferred(requests.Transferred.parse(data).number)
    return {"success": True, "next": (yield from queue.transfer())}


def _listed(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    yield from ()
    queue.mark_listed()
    return {"success": True}


_COMMANDS: dict[str, Callable[[Queue, Moment, Any], Steps[Answer]]] = {
    "Push": _push,
    "Pop": _pop,
    "PopWithAck": _pop_with_ack,
    "Acknowledge": _acknowledge,
    "Abandon": _abandon,
    "ExtendLock": _extend_lock,
    "DeadLetter": _dead_letter,
    "Peek": _peek,
    "InFlight": _in_flight,
    "Stats": _stats,
    "Purge": _purge,
    "GetConfig": _get_config,
    "SetConfig": _set_config,
    "Receive": _receive,
    "Transferred": _transferred,
    "Listed": _listed,
}
_LOOKING = frozenset({"Peek", "InFlight", "Stats", "GetConfig"})
_ANSWER_ITEMS = frozenset({"Pop", "PopWithAck", "Peek", "InFlight"})
