"""The commands of a queue by name: each validates a request and returns a reply. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidRequest, QueueLocked
from holdfast.pushpop.api import replies, requests
from holdfast.pushpop.api.config import QueueConfig
from holdfast.pushpop.core import browsing
from holdfast.pushpop.core.budgets import MAX_LOCKS_SHOWN, MAX_POP_BYTES
from holdfast.pushpop.core.dead_letters import LetterFilter
from holdfast.pushpop.core.items import Item, Place, Pushed, with_owner
from holdfast.pushpop.core.queue import MAX_POP, MAX_TTL
from holdfast.wire.deferred import DEFERRED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.pushpop.core.items import Delivery
    from holdfast.pushpop.core.queue import Queue
    from holdfast.runtime.reads import Reads

Answer = dict[str, Any]


@dataclass(slots=True)
class TurnContext:
    """The inputs of a turn, and the state its commands share."""

    now: float
    #: Generates an id for a new lock.
    new_lock_id: Callable[[], str]
    #: The notifiers to call when items become available.
    subscribers: set[str]
    #: The size of the items in all replies so far.
    answered_bytes: int = 0


def execute(queue: Queue, moment: TurnContext, method: str, data: Any) -> Reads[Answer]:
    """Runs one command and returns its reply; a refusal is returned too.

    An internal error is raised and ends the turn, unless the command is read-only: then only this command fails.
    """
    command = _COMMANDS.get(method)
    try:
        if command is None:
            raise InvalidRequest(f"There is no method {method}.")
        if isinstance(data, HoldfastError):
            raise data  # found by the validation before the turn
        return (yield from command(queue, moment, data))
    except HoldfastError as error:
        if error.status >= 500 and method not in _READ_ONLY:
            raise
        return replies.refused(error)


def execute_all(queue: Queue, moment: TurnContext, calls: Sequence[tuple[str, Any]]) -> Reads[list[Answer]]:
    """Runs the commands whose replies fit into one answer; the others get ``DEFERRED`` and must be sent again."""
    answers: list[Answer] = []
    for method, data in calls:
        if moment.answered_bytes >= MAX_POP_BYTES and method in _ANSWER_ITEMS:
            answers.append(DEFERRED)
        else:
            answers.append((yield from execute(queue, moment, method, data)))
    return answers


def _push(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    if isinstance(data, requests.CheckedPush):
        items = [_pushed(options, text, data.traceparent) for options, text in data.items]
        elsewhere = data.elsewhere
    else:
        request = requests.Push.parse(data)
        items = [_pushed(entry, entry.text(), request.traceparent) for entry in request.items]
        elsewhere = request.elsewhere
    return replies.pushed(*(yield from queue.push(moment.now, items, elsewhere)))


def _pushed(options: requests.ItemOptions, text: str, traceparent: str | None) -> Pushed:
    return Pushed(
        options.priority,
        text,
        options.idempotency_key,
        options.dedup_id,
        options.delay_seconds,
        options.ttl_seconds,
        options.tenant_id or None,
        options.traceparent or traceparent,
    )


def _pop(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Pop.parse(data)
    if queue.config.paused:
        _subscribe(moment, request)
        return replies.paused(queue.partition)
    try:
        taken = yield from queue.pop(moment.now, request.count)
    except QueueLocked:
        _subscribe(moment, request)
        raise
    if not taken:
        _subscribe(moment, request)
    return replies.popped(_counted(moment, taken), queue.partition)


def _pop_with_ack(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.PopWithAck.parse(data)
    if queue.config.paused:
        _subscribe(moment, request)
        return replies.paused(queue.partition)
    lock_id = moment.new_lock_id()
    if request.owner is not None:
        lock_id = with_owner(lock_id, request.owner)
    try:
        taken, lock = yield from queue.pop_with_ack(moment.now, request.count, request.ttl_seconds, lock_id)
    except QueueLocked:
        _subscribe(moment, request)
        raise
    if not taken or request.stays:
        _subscribe(moment, request)
    return replies.popped(_counted(moment, taken), queue.partition, lock)


def _counted(moment: TurnContext, deliveries: list[Delivery]) -> list[Delivery]:
    moment.answered_bytes += sum(delivery.item.size for delivery in deliveries)
    return deliveries


def _subscribe(moment: TurnContext, request: requests.Pop) -> None:
    if request.notify:
        moment.subscribers.add(request.notify)


def _acknowledge(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Acknowledge.parse(data)
    return replies.answered("acknowledged", (yield from queue.acknowledge(moment.now, request.lock_id)))


def _complete(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Complete.parse(data)
    return replies.completed((yield from queue.complete(moment.now, request.ids)))


def _abandon(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Abandon.parse(data)
    return (yield from _returned(queue, moment, request.lock_id, request, request.ids, counted=not request.uncounted))


def _abandon_owned_locks(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.AbandonOwnedLocks.parse(data)
    count = yield from queue.abandon_owned_by(moment.now, request.owner, counted=not request.uncounted)
    return replies.answered("abandoned", count)


def _requeue(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Requeue.parse(data)
    return (yield from _returned(queue, moment, queue.lock_named(request.lock_id_prefix), request))


def _returned(
    queue: Queue,
    moment: TurnContext,
    lock_id: str,
    request: requests.Return,
    ids: Sequence[str] | None = None,
    *,
    counted: bool = True,
) -> Reads[Answer]:
    before = queue.counters["dead_lettered"]
    delay = request.given_delay
    count = yield from queue.abandon(moment.now, lock_id, request.error, delay, ids, counted=counted)
    return replies.given_back(count, queue.counters["dead_lettered"] - before)


def _extend_lock(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.ExtendLock.parse(data)
    yield from ()
    return _extended(queue, moment, request.lock_id, request)


def _extend_by_prefix(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.ExtendByPrefix.parse(data)
    yield from ()
    return _extended(queue, moment, queue.lock_named(request.lock_id_prefix), request)


def _extended(queue: Queue, moment: TurnContext, lock_id: str, request: requests.Extension) -> Answer:
    # Keeps the sum a valid time whatever number was sent.
    additional = min(request.additional_ttl_seconds, MAX_TTL)
    return {"success": True, "lock_expires_at": queue.extend(moment.now, lock_id, additional)}


def _dead_letter(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.DeadLetter.parse(data)
    yield from ()
    count = queue.dead_letter(moment.now, request.lock_id, request.reason, request.ids)
    return replies.answered("dead-lettered", count)


def _peek(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Peek.parse(data)
    found = yield from browsing.peek(queue.store, moment.now, request.count, request.max_bytes)
    return replies.peeked(_counted(moment, found), queue.partition)


def _in_flight(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.InFlight.parse(data or {})
    locks = yield from queue.locked(request.count, request.max_bytes)
    for _, deliveries in locks:
        _counted(moment, deliveries)
    return replies.in_flight(locks, queue.partition) | _locks_not_shown(queue)


def _stats(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    oldest = yield from queue.store.oldest()
    return {
        "queue": queue.name,
        "partition": queue.partition,
        "count": queue.count,
        "priorities": {str(priority): lane.count for priority, lane in sorted(queue.store.lanes.items())},
        "locked": queue.store.in_flight.locked,
        "delayed": queue.store.delayed,
        "load": queue.store.load,
        "oldest_age_seconds": None if oldest is None else max(0.0, moment.now - oldest),
        "locks": [replies.lock_shown(lock) for lock in queue.store.in_flight.first_locks()],
        **_locks_not_shown(queue),
        "counters": dict(queue.counters),
        "config": queue.config.shown(),
        "dead_letter_queue": queue.returns.dead_letter_queue,
    }


def _locks_not_shown(queue: Queue) -> Answer:
    others = len(queue.store.in_flight.locks) - MAX_LOCKS_SHOWN
    return {"locks_not_shown": others} if others > 0 else {}


def _purge(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    yield from ()
    return {"success": True, "purged": queue.purge()}


def _get_config(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    yield from ()
    return queue.config.shown()


def _set_config(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    if not isinstance(data, dict):
        raise InvalidRequest("The configuration must be a JSON object.")
    yield from ()
    changes = dict(data)
    elsewhere = changes.pop("elsewhere", 0)
    if type(elsewhere) is not int or elsewhere < 0:
        raise InvalidRequest("elsewhere: must be a number of items, 0 or more")
    queue.configure(queue.config.changed(changes), elsewhere)
    return queue.config.shown()


def _configure(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Configure.parse(data)
    yield from ()
    erased = queue.apply_config(QueueConfig.stored(request.config), request.version, request.generation)
    return {"success": True, "purged": erased}


def _pending_config(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    """Returns the configuration and the partitions that lack it."""
    told = requests.PendingConfig.parse(data).told
    yield from ()
    if told is not None:
        queue.told(told.partition, told.version)
    return {
        "success": True,
        "config": queue.config.model_dump(exclude_defaults=True),
        "version": queue.settings.version,
        "generation": queue.settings.generation,
        "partitions": queue.settings.pending_partitions,
    }


def _claim(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Claim.parse(data)
    yield from ()
    return {"success": True, "partitions": queue.pushes.claim(moment.now, request.dedup_ids, request.partition)}


def _revoke(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    yield from queue.revoke(requests.Revoke.parse(data).id)
    return {"success": True, "purged": 1}


def _dead_letters(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.DeadLetters.parse(data)
    wanted = LetterFilter(request.original_queue)
    letters, after = yield from queue.dead_letters.page(_place(request.cursor), request.limit, wanted)
    return replies.dead_letters(_counted(moment, letters), queue.partition, after)


def _redrive(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    """Redrives one batch; the reply says whether there are more."""
    letters, rest = yield from _selected(queue, data)
    yield from queue.dead_letters.redrive(letters, moment.now)
    return {"success": True, "redriven": len(letters)} | rest


def _delete_dead_letters(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    """Deletes one batch; the reply says whether there are more."""
    letters, rest = yield from _selected(queue, data)
    yield from queue.delete_dead_letters(letters)
    return {"success": True, "deleted": len(letters)} | rest


def _selected(queue: Queue, data: Any) -> Reads[tuple[list[Delivery], Answer]]:
    """Returns the next dead letters, and the part of the reply that says whether there are more."""
    request = requests.SelectDeadLetters.parse(data)
    limit, wanted = min(MAX_POP, request.max or MAX_POP), request.wanted()
    if request.ids is not None:
        letters, more = yield from queue.dead_letters.among(request.ids, limit, wanted)
        return letters, {"more": more}
    letters, after = yield from queue.dead_letters.following(_place(request.cursor), limit, wanted)
    return letters, {"more": False} if after is None else {"more": True, "cursor": replies.cursor(after)}


def _place(cursor: str | None) -> Place | None:
    if cursor is None:
        return None
    parts = cursor.split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise InvalidRequest("cursor: not valid; use the next_cursor of a reply")
    return Place(*map(int, parts))


def _receive(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Receive.parse(data)
    items = [(entry.priority, Item.from_json(entry.stored.model_dump())) for entry in request.items]
    forward = not queue.settings.is_member
    accepted = yield from queue.transfers.receive(request.source, request.number, items, moment.now, forward=forward)
    return {"success": True, "accepted": accepted}


def _transferred(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    """Records the outcome of a transfer and returns the next one."""
    request = requests.Transferred.parse({} if data is None else data)
    if request.number is not None and request.accepted:
        yield from queue.transfers.transferred(request.number)
    elif request.number is not None:
        queue.transfers.not_transferred(request.number, moment.now)
    return {"success": True, "next": (yield from queue.transfers.transfer(moment.now, request.busy))}


def _confirm_indexed(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    yield from ()
    queue.mark_indexed()
    return {"success": True}


def _confirm_removed_from_index(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    yield from ()
    queue.mark_removed_from_index()
    return {"success": True}


def _begin_deletion(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    yield from ()
    version, partitions = queue.begin_deletion(moment.now)
    return {"success": True, "version": version, "partitions": list(partitions)}


def _close(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.Close.parse(data)
    yield from ()
    queue.close_for_deletion(request.version)
    return {"success": True}


def _abort_deletion(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    yield from ()
    queue.abort_deletion()
    return {"success": True}


def _finish_deletion(queue: Queue, moment: TurnContext, data: Any) -> Reads[Answer]:
    request = requests.FinishDeletion.parse(data)
    yield from ()
    return {"success": True, "purged": queue.delete(QueueConfig(), request.version, force=request.force)}


_COMMANDS: dict[str, Callable[[Queue, TurnContext, Any], Reads[Answer]]] = {
    "Push": _push,
    "Pop": _pop,
    "PopWithAck": _pop_with_ack,
    "Acknowledge": _acknowledge,
    "Complete": _complete,
    "Abandon": _abandon,
    "AbandonOwned": _abandon_owned_locks,
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
    "DeleteDeadLetters": _delete_dead_letters,
    "Claim": _claim,
    "Configure": _configure,
    "PendingConfig": _pending_config,
    "GetConfig": _get_config,
    "SetConfig": _set_config,
    "Receive": _receive,
    "Transferred": _transferred,
    "ConfirmIndexed": _confirm_indexed,
    "ConfirmRemovedFromIndex": _confirm_removed_from_index,
    "BeginDeletion": _begin_deletion,
    "Close": _close,
    "AbortDeletion": _abort_deletion,
    "FinishDeletion": _finish_deletion,
}
_READ_ONLY = frozenset({"Peek", "InFlight", "Stats", "GetConfig", "DeadLetters"})
_ANSWER_ITEMS = frozenset({"Pop", "PopWithAck", "Peek", "InFlight", "DeadLetters"})
