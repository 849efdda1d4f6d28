"""Routes pushes to the partitions of a queue, with the load of the other partitions for the check of the capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import errors
from holdfast.gateway.queues.partitions import together
from holdfast.pushpop.api import requests
from holdfast.pushpop.api.large_pushes import ENTRIES
from holdfast.runtime.serialization import dump
from holdfast.wire.errors import is_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.gateway.queues.partition_loads import PartitionLoads
    from holdfast.gateway.queues.partitions import Answer, Partitions

# Each partition admits its share of the queue's rate. At most this many partitions are tried for one push.
MOST_TRIED = 8

#: The field with the load of the other partitions. Only the gateway may send it.
ELSEWHERE = "elsewhere"
_ITEMS = "items"
_CONTEXT = "traceparent"


class Pushes:
    """Routes each push to one partition as a whole, except items whose dedup ids were pushed to other ones before."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._refreshing: set[str] = set()

    async def push(self, queue: str, body: bytes, data: dict[str, Any]) -> Answer:
        """Pushes the request's items. ``data`` is the parsed body."""
        for _ in range(MOST_TRIED):
            answer = await self._push(queue, body, data)
            if not is_refusal(answer, errors.NotFound.code):
                return answer
            # That partition has not heard of the queue's growth yet, or the queue was deleted: ask how many it has.
            await self._partitions.call(queue, "GetConfig")
        raise errors.PartitionUnavailable(retry_after=1)

    async def _push(self, queue: str, body: bytes, data: dict[str, Any]) -> Answer:
        spread = self._partitions.known(queue)
        if spread is None:
            answer = await self._partitions.call(queue, "Push", body)
            spread = self._partitions.known(queue)
            if spread is None or not is_refusal(answer, errors.Conflict.code):
                return answer
            # One of its items belongs to a partition that this process did not know of.
        await self._know_loads(queue, spread)
        dedup_ids = _dedup_ids(data)
        if any(dedup_id is not None for dedup_id in dedup_ids):
            return await self._push_claimed(queue, spread, body, data, dedup_ids)
        return await self._push_balanced(queue, spread, body, len(dedup_ids))

    async def _push_balanced(self, queue: str, spread: PartitionLoads, body: bytes, count: int) -> Answer:
        refusals: list[Answer] = []
        for number in spread.to_push()[:MOST_TRIED]:
            answer = await self._push_to(queue, spread, number, body, count)
            if not is_refusal(answer, errors.RateLimited.code):
                return answer
            refusals.append(answer)
        return min(refusals, key=lambda refusal: refusal["retry_after"])

    async def _push_claimed(
        self, queue: str, spread: PartitionLoads, body: bytes, data: dict[str, Any], dedup_ids: Sequence[str | None]
    ) -> Answer:
        """Pushes items with dedup ids. The first partition records the partition of each dedup id."""
        form = requests.WrittenPush if ENTRIES in data else requests.Push
        request = form.parse(data)  # before anything is claimed
        chosen = spread.to_push()[0]
        unique = list(dict.fromkeys(dedup_id for dedup_id in dedup_ids if dedup_id is not None))
        claim = await self._partitions.call(queue, "Claim", dump({"dedup_ids": unique, "partition": chosen}))
        if claim.get("success") is False:
            return claim
        homes: dict[str | None, int] = dict(zip(unique, claim["partitions"], strict=True))
        by_partition: dict[int, list[int]] = {}
        for place, dedup_id in enumerate(dedup_ids):
            by_partition.setdefault(homes.get(dedup_id, chosen), []).append(place)
        if len(by_partition) == 1:
            [number] = by_partition
            return await self._push_to(queue, spread, number, body, len(dedup_ids))
        if isinstance(request, requests.Push):
            for entry in request.items:
                entry.text()  # raises when it is too large
        return await self._push_apart(queue, spread, data, chosen, by_partition)

    async def _push_apart(
        self, queue: str, spread: PartitionLoads, data: dict[str, Any], chosen: int, by_partition: dict[int, list[int]]
    ) -> Answer:
        key, items = (ENTRIES if ENTRIES in data else _ITEMS), entries_of(data)
        context = {name: data[name] for name in (_CONTEXT,) if name in data}

        def push(number: int) -> Any:
            part = [items[place] for place in by_partition[number]]
            return self._push_to(queue, spread, number, dump({key: part} | context), len(part))

        # Items for other partitions first: they are usually stored there already, and their dedup ids make a repeated
        # push harmless. Items without one are stored last, when no other part of the push can be refused any more.
        others = [number for number in by_partition if number != chosen]
        answers = dict(zip(others, await together(push(number) for number in others), strict=True))
        if chosen in by_partition and not any(answer.get("success") is False for answer in answers.values()):
            answers[chosen] = await push(chosen)
        for answer in answers.values():
            if answer.get("success") is False:
                return answer
        ids = [
            (place, item_id)
            for number, answer in answers.items()
            for place, item_id in zip(by_partition[number], answer["ids"], strict=True)
        ]
        return {
            "success": True,
            "count": sum(answer["count"] for answer in answers.values()),
            "ids": [item_id for _, item_id in sorted(ids)],
        }

    async def _push_to(self, queue: str, spread: PartitionLoads, number: int, body: bytes, count: int) -> Answer:
        answer = await self._send(queue, spread, number, body, count)
        if is_refusal(answer, errors.NotFound.code):
            spread.avoid(number)
        if is_refusal(answer, errors.Capacity.code):
            spread.bounded = True
            # Consumers may have popped from the other partitions in the meantime.
            await self._partitions.refresh(queue, [other for other in range(spread.count) if other != number])
            answer = await self._send(queue, spread, number, body, count)
        return answer

    async def _send(self, queue: str, spread: PartitionLoads, number: int, body: bytes, count: int) -> Answer:
        request = with_elsewhere(body, spread.elsewhere(number))
        with spread.pushing(number, count):
            try:
                return await self._partitions.call(queue, "Push", request, number)
            except errors.Unavailable:
                spread.avoid(number)
                raise

    async def _know_loads(self, queue: str, spread: PartitionLoads) -> None:
        if missing := spread.stale() if spread.bounded else spread.unknown():
            await self._partitions.refresh(queue, missing)
        elif queue not in self._refreshing and (old := spread.stale()):
            self._refreshing.add(queue)
            refreshing = self._partitions.start(self._partitions.refresh(queue, old))
            refreshing.add_done_callback(lambda _: self._refreshing.discard(queue))


def refuse_elsewhere(data: dict[str, Any]) -> None:
    """Raises InvalidRequest for a body with the field that only the gateway may send."""
    if ELSEWHERE in data:
        raise errors.InvalidRequest(f"{ELSEWHERE}: is not known here")


def refuse_internal(data: dict[str, Any]) -> None:
    """Raises InvalidRequest for a push with fields that only the gateway may send."""
    refuse_elsewhere(data)
    if ENTRIES in data:
        raise errors.InvalidRequest(f"{ENTRIES}: is not known here")
    if _CONTEXT in data and _ITEMS in data:
        raise errors.InvalidRequest(f"{_CONTEXT}: is not known here: send it as a header, or with each item")


def refuse_other_tenants(data: dict[str, Any], tenant: str) -> None:
    """Raises Forbidden for items with another tenant's id: their consumer may act on that tenant's records."""
    for entry in entries_of(data):
        if isinstance(entry, dict) and (named := entry.get("tenant_id")) and named != tenant:
            raise errors.Forbidden("This token is bound to another tenant than the one in tenant_id.")


def with_elsewhere(body: bytes, load: int) -> bytes:
    """Returns the body with this load added. The JSON object is edited as text, not parsed, as it may be large."""
    return _with_field(body, b'"%s":%d' % (ELSEWHERE.encode(), load))


def with_context(body: bytes, data: dict[str, Any], traceparent: str | None) -> bytes:
    """Returns the body with the trace context of its items, and puts it into ``data``, unless it has one."""
    if traceparent is None or _CONTEXT in data:
        return body
    data[_CONTEXT] = traceparent
    return _with_field(body, b'"%s":"%s"' % (_CONTEXT.encode(), traceparent.encode()))


def _with_field(body: bytes, field: bytes) -> bytes:
    inside = body.rstrip()[:-1].rstrip()
    comma = b"" if inside.endswith(b"{") else b","
    return inside + comma + field + b"}"


def _dedup_ids(data: dict[str, Any]) -> list[str | None]:
    """Returns one dedup id or None for each item. Invalid items and ids are left to the queue to refuse."""
    return [item.get("dedup_id") if isinstance(item, dict) else None for item in entries_of(data)]


def entries_of(data: dict[str, Any]) -> list[Any]:
    """Returns the items of a push in either form."""
    items = data.get(ENTRIES, data.get(_ITEMS))
    return items if isinstance(items, list) else [data]
