"""What can be asked of a queue, by name: a checked request in, an answer as callers see it out. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidRequest, QueueLocked
from holdfast.pushpop import replies, requests
from holdfast.pushpop.bounds import MAX_POP_BYTES
from holdfast.pushpop.config import QueueConfig
from holdfast.pushpop.core import MAX_POP, MAX_TTL
from holdfast.pushpop.items import Item, Place, Pushed, marked
from holdfast.runtime.gather import LATER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.pushpop.core import Queue
    from holdfast.pushpop.items import Delivery
    from holdfast.pushpop.steps import Steps

Answer = dict[str, Any]


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
    items = [
        Pushed(
            entry.priority,
            entry.text(),
            entry.idempotency_key,
            entry.dedup_id,
            entry.delay_seconds,
            entry.ttl_seconds,
            entry.tenant_id or None,
        )
        for entry in request.items
    ]
    return replies.pushed(*(yield from queue.push(moment.now, items, request.elsewhere)))


def _pop(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Pop.parse(data)
    try:
        taken = yield from queue.pop(moment.now, request.count)
    except QueueLocked:
        _leave_doorbell(moment, request)
        raise
    if not taken:
        _leave_doorbell(moment, request)
    return replies.popped(_counted(moment, taken), queue.partition)


def _pop_with_ack(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.PopWithAck.parse(data)
    lock_id = moment.new_lock_id()
    if request.mark is not None:
        lock_id = marked(lock_id, request.mark)
    try:
        taken, lock = yield from queue.pop_with_ack(moment.now, request.count, request.ttl_seconds, lock_id)
    except QueueLocked:
        _leave_doorbell(moment, request)
        raise
    if not taken or request.stays:
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
    return replies.answered("acknowledged", (yield from queue.acknowledge(moment.now, request.lock_id)))


def _complete(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Complete.parse(data)
    return replies.completed((yield from queue.complete(moment.now, request.ids)))


def _abandon(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Abandon.parse(data)
    return (yield from _given_back(queue, moment, request.lock_id, request, request.ids))


def _give_back_marked(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.GiveBackMarked.parse(data)
    return replies.answered("given back", (yield from queue.give_back_marked(moment.now, request.mark)))


def _requeue(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Requeue.parse(data)
    return (yield from _given_back(queue, moment, queue.lock_named(request.lock_id_prefix), request))


def _given_back(
    queue: Queue, moment: Moment, lock_id: str, request: requests.Return, ids: Sequence[str] | None = None
) -> Steps[Answer]:
    before = queue.counters["dead_lettered"]
    count = yield from queue.abandon(moment.now, lock_id, request.error, request.delay_seconds, ids)
    return replies.given_back(count, queue.counters["dead_lettered"] - before)


def _extend_lock(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.ExtendLock.parse(data)
    yield from ()
    return _extended(queue, moment, request.lock_id, request)


def _extend_by_prefix(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.ExtendByPrefix.parse(data)
    yield from ()
    return _extended(queue, moment, queue.lock_named(request.lock_id_prefix), request)


def _extended(queue: Queue, moment: Moment, lock_id: str, request: requests.Extension) -> Answer:
    # What is added to a time has to be a number that can be one.
    additional = min(request.additional_ttl_seconds, MAX_TTL)
    return {"success": True, "lock_expires_at": queue.extend(moment.now, lock_id, additional)}


def _dead_letter(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.DeadLetter.parse(data)
    yield from ()
    count = queue.dead_letter(moment.now, request.lock_id, request.reason, request.ids)
    return replies.answered("dead-lettered", count)


def _peek(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Peek.parse(data)
    return replies.peeked(_counted(moment, (yield from queue.stock.peek(moment.now, request.count))), queue.partition)


def _in_flight(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    locks = yield from queue.locked()
    for _, deliveries in locks:
        _counted(moment, deliveries)
    return replies.in_flight(locks, queue.partition)


def _stats(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    oldest = yield from queue.stock.oldest()
    locks = list(queue.stock.holdings.locks.values())
    return {
        "queue": queue.name,
        "partition": queue.partition,
        "count": queue.count,
        "priorities": {str(priority): lane.count for priority, lane in sorted(queue.stock.lanes.items())},
        "locked": queue.stock.holdings.locked,
        "delayed": queue.stock.delayed,
        "load": queue.stock.load,
        "oldest_age_seconds": None if oldest is None else max(0.0, moment.now - oldest),
        "locks": [replies.lock_shown(lock) for lock in locks],
        "counters": dict(queue.counters),
        "config": queue.config.shown(),
        "dead_letter_queue": queue.dead_letter_queue,
    }


def _purge(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    yield from ()
    return {"success": True, "purged": queue.purge()}


def _get_config(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    yield from ()
    return queue.config.shown()


def _set_config(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    if not isinstance(data, dict):
        raise InvalidRequest("A configuration is an object.")
    yield from ()
    changes = dict(data)
    elsewhere = changes.pop("elsewhere", 0)
    if type(elsewhere) is not int or elsewhere < 0:
        raise InvalidRequest("elsewhere: a number of items")
    queue.configure(queue.config.changed(changes), elsewhere)
    return queue.config.shown()


def _configure(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Configure.parse(data)
    yield from ()
    queue.settings.be_told(QueueConfig.stored(request.config), request.version)
    return {"success": True}


def _untold(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    """Answers whom to tell what."""
    told = requests.Untold.parse(data).told
    yield from ()
    if told is not None:
        queue.told(told.partition, told.version)
    return {
        "success": True,
        "config": queue.config.model_dump(exclude_defaults=True),
        "version": queue.settings.version,
        "partitions": queue.settings.untold,
    }


def _claim(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Claim.parse(data)
    yield from ()
    return {"success": True, "partitions": queue.claim(moment.now, request.dedup_ids, request.partition)}


def _revoke(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    yield from queue.revoke(requests.Revoke.parse(data).id)
    return {"success": True, "purged": 1}


def _dead_letters(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.DeadLetters.parse(data)
    letters, after = yield from queue.post.dead_letters(_place(request.cursor), request.limit, request.original_queue)
    return replies.dead_letters(_counted(moment, letters), queue.partition, after)


def _redrive(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    """As many as go together; to be asked again while there are more."""
    request = requests.Redrive.parse(data)
    limit = min(MAX_POP, request.max or MAX_POP)
    if request.ids is not None:
        redriven, more = yield from queue.post.redrive(moment.now, request.ids, limit, request.original_queue)
        return {"success": True, "redriven": redriven, "more": more}
    redriven, after = yield from queue.post.redrive_next(
        moment.now, _place(request.cursor), limit, request.original_queue
    )
    answer: Answer = {"success": True, "redriven": redriven, "more": after is not None}
    return answer if after is None else answer | {"cursor": replies.cursor(after)}


def _place(cursor: str | None) -> Place | None:
    if cursor is None:
        return None
    parts = cursor.split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise InvalidRequest("cursor: not one that was answered here")
    return Place(*map(int, parts))


def _receive(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    request = requests.Receive.parse(data)
    items = [(entry.priority, Item.from_json(entry.stored.model_dump())) for entry in request.items]
    return {"success": True, "taken": (yield from queue.post.receive(request.source, request.number, items))}


def _transferred(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    """Answers what is to be transferred next."""
    if data is not None:
        yield from queue.post.transferred(requests.Transferred.parse(data).number)
    return {"success": True, "next": (yield from queue.post.transfer())}


def _listed(queue: Queue, moment: Moment, data: Any) -> Steps[Answer]:
    yield from ()
    queue.mark_listed()
    return {"success": True}


_COMMANDS: dict[str, Callable[[Queue, Moment, Any], Steps[Answer]]] = {
    "Push": _push,
    "Pop": _pop,
    "PopWithAck": _pop_with_ack,
    "Acknowledge": _acknowledge,
    "Complete": _complete,
    "Abandon": _abandon,
    "GiveBackMarked": _give_back_marked,
    "Requeue": _requeue,
    "ExtendLock": _extend_lock,
    "ExtendByPrefix": _extend_by_prefix,
    "DeadLetter": _dead_letter,
    "Peek": _peek,
    "InFlight": _in_flight,
    "Stats": _stats,
    "Purge": _purge,
    "Revoke": _revoke,
    "DeadLetters": _dead_letters,
    "Redrive": _redrive,
    "Claim": _claim,
    "Configure": _configure,
    "Untold": _untold,
    "GetConfig": _get_config,
    "SetConfig": _set_config,
    "Receive": _receive,
    "Transferred": _transferred,
    "Listed": _listed,
}
_LOOKING = frozenset({"Peek", "InFlight", "Stats", "GetConfig", "DeadLetters"})
_ANSWER_ITEMS = frozenset({"Pop", "PopWithAck", "Peek", "InFlight", "DeadLetters"})
