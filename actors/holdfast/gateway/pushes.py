"""Pushes into queues of several partitions: where one goes, and what its partition must be told of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import errors
from holdfast.gateway.partitions import together
from holdfast.pushpop import requests
from holdfast.runtime.refusals import is_refusal
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.gateway.loads import Spread
    from holdfast.gateway.partitions import Answer, Partitions

# Each partition lets its share of the queue's rate through; no more than so many are asked for room.
MOST_TRIED = 8

#: What only the gateway may say to a partition: how much the others hold.
ELSEWHERE = "elsewhere"


class Pushes:
    """One request goes to one partition as a whole, except what was pushed elsewhere before."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._refreshing: set[str] = set()

    async def push(self, queue: str, body: bytes, data: dict[str, Any]) -> Answer:
        """``data`` is what the body says."""
        spread = self._partitions.known(queue)
        if spread is None:
            answer = await self._partitions.call(queue, "Push", body)
            spread = self._partitions.known(queue)
            if spread is None or not is_refusal(answer, errors.Conflict.code):
                return answer
            # An item of it belongs to a partition that this process had not heard of.
        await self._know_loads(queue, spread)
        dedup_ids = _dedup_ids(data)
        if any(dedup_id is not None for dedup_id in dedup_ids):
            return await self._push_claimed(queue, spread, body, data, dedup_ids)
        return await self._push_balanced(queue, spread, body, len(dedup_ids))

    async def _push_balanced(self, queue: str, spread: Spread, body: bytes, count: int) -> Answer:
        refusals: list[Answer] = []
        for number in spread.to_push()[:MOST_TRIED]:
            answer = await self._push_to(queue, spread, number, body, count)
            if not is_refusal(answer, errors.RateLimited.code):
                return answer
            refusals.append(answer)
        return min(refusals, key=lambda refusal: refusal["retry_after"])

    async def _push_claimed(
        self, queue: str, spread: Spread, body: bytes, data: dict[str, Any], dedup_ids: Sequence[str | None]
    ) -> Answer:
        """The first partition remembers for all of them where an id was pushed."""
        request = requests.Push.parse(data)  # before anything is claimed
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
        for entry in request.items:
            entry.text()  # raises when it is too large
        return await self._push_apart(queue, spread, data["items"], chosen, by_partition)

    async def _push_apart(
        self, queue: str, spread: Spread, items: list[Any], chosen: int, by_partition: dict[int, list[int]]
    ) -> Answer:
        def push(number: int) -> Any:
            part = [items[place] for place in by_partition[number]]
            return self._push_to(queue, spread, number, dump({"items": part}), len(part))

        # What belongs elsewhere first: it is there already, as a rule, and has an id by which it is stored once
        # however often it is pushed. What has none is stored only when nothing can be refused any more.
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

    async def _push_to(self, queue: str, spread: Spread, number: int, body: bytes, count: int) -> Answer:
        answer = await self._send(queue, spread, number, body, count)
        if is_refusal(answer, errors.Capacity.code):
            spread.bounded = True
            # Others may have taken something from the other partitions in the meantime.
            await self._partitions.refresh(queue, [other for other in range(spread.count) if other != number])
            answer = await self._send(queue, spread, number, body, count)
        return answer

    async def _send(self, queue: str, spread: Spread, number: int, body: bytes, count: int) -> Answer:
        told = with_elsewhere(body, spread.elsewhere(number))
        with spread.pushing(number, count):
            try:
                return await self._partitions.call(queue, "Push", told, number)
            except errors.Unavailable:
                spread.avoid(number)
                raise

    async def _know_loads(self, queue: str, spread: Spread) -> None:
        if missing := spread.stale() if spread.bounded else spread.unknown():
            await self._partitions.refresh(queue, missing)
        elif queue not in self._refreshing and (old := spread.stale()):
            self._refreshing.add(queue)
            refreshing = self._partitions.start(self._partitions.refresh(queue, old))
            refreshing.add_done_callback(lambda _: self._refreshing.discard(queue))


def refuse_elsewhere(data: dict[str, Any]) -> None:
    """Raises InvalidRequest for a body that says what only the gateway may say."""
    if ELSEWHERE in data:
        raise errors.InvalidRequest(f"{ELSEWHERE}: is not known here")


def refuse_other_tenants(data: dict[str, Any], tenant: str) -> None:
    """Raises Forbidden for items pushed on behalf of another tenant: their consumer may act on that one's records."""
    for entry in _entries(data):
        if isinstance(entry, dict) and (named := entry.get("tenant_id")) and named != tenant:
            raise errors.Forbidden("This token belongs to another tenant than the one that tenant_id names.")


def with_elsewhere(body: bytes, load: int) -> bytes:
    """A body that is a JSON object, and says this too. It is not read and written anew: it may be large."""
    inside = body.rstrip()[:-1].rstrip()
    comma = b"" if inside.endswith(b"{") else b","
    return inside + comma + b'"%s":%d}' % (ELSEWHERE.encode(), load)


def _dedup_ids(data: dict[str, Any]) -> list[str | None]:
    """One for each item; what is no item, or no id, is left to the queue to refuse."""
    return [item.get("dedup_id") if isinstance(item, dict) else None for item in _entries(data)]


def _entries(data: dict[str, Any]) -> list[Any]:
    items = data.get("items")
    return items if isinstance(items, list) else [data]
