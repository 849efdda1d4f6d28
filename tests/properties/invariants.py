"""Invariants of the state after all calls and faults have ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.kinds import QUEUE_INDEX_TYPE, QUEUE_TYPE
from holdfast.names import split_partition
from holdfast.pushpop.core.dedup import CLAIM_LEEWAY
from holdfast.pushpop.core.queue import RESEND_SECONDS
from holdfast.pushpop.index import SHARDS
from holdfast.runtime.in_process.reminders import LONGEST_WAIT
from tests.properties.operations import Operation
from tests.properties.server import LATEST
from tests.properties.stored import TICKS_PER_SECOND

if TYPE_CHECKING:
    from tests.properties.server import Server

#: What one turn may take, on top of how late its reminder is.
SLACK = LONGEST_WAIT + 2.0


class Inspection:
    """When all is quiet: what is due happens by itself, and everything is accounted for."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._journal = server.ledger.journal

    async def everything_happens_by_itself(self) -> None:
        """Asserts that all due work is done on time without any call."""
        await self._what_is_due_is_done()
        await self._all_is_tidied_up()

    async def everything_is_in_order(self) -> None:
        await self._every_queue_is_resumed()
        await self._what_waits_can_be_popped()
        await self._the_index_knows_all()
        self._server.ledger.close()

    async def one_target_holds_up_no_other(self) -> None:
        """Dead letters reach their queue, though those before them are for one that cannot be reached."""
        source, out_of_reach = "mixed", "elsewhere"
        self._server.unreachable = frozenset({out_of_reach})
        for number, target in enumerate((out_of_reach, None, out_of_reach)):
            await self._ask(source, "SetConfig", {"dead_letter_queue": target})
            await self._ask(source, "Push", {"item": {"tag": f"{source}:{number}"}})
            held = await self._ask(source, "PopWithAck", {"ttl_seconds": 300})
            await self._ask(source, "DeadLetter", {"lock_id": held["lock_id"]})
        await asyncio.sleep(2 * (RESEND_SECONDS + LATEST + SLACK))
        left = {transfer.target for transfer in self._journal.watched(source).contents.parcels.values()}
        assert left == {out_of_reach}, f"{source} still has something for {left}"
        self._server.unreachable = frozenset()
        await self._all_is_tidied_up()

    async def _what_is_due_is_done(self) -> None:
        """Locks end, delayed items become available, expired ones vanish, and dedup ids are forgotten."""
        while ahead := self._ahead():
            await self._sleep_until(max(self._now(), min(map(min, ahead.values()))) + LATEST + SLACK)
            following = self._ahead()
            for name, moments in ahead.items():
                # A queue does some at a time, each in a turn of its own, and the reminder of each may be late.
                if min(moments) + LATEST + SLACK <= self._now():
                    late = self._now() - min(moments)
                    assert following.get(name) != moments, f"{late:.0f} s ago {name} had to do something, and did not"

    async def _all_is_tidied_up(self) -> None:
        """Asserts that transfers arrive, queues are listed, partitions are configured, and no garbage is left."""
        # Whatever failed is tried again by a reminder, and may find that there is more to do.
        await asyncio.sleep(2 * (RESEND_SECONDS + LATEST + SLACK))
        for name, watched in list(self._journal.queues.items()):
            contents = watched.contents
            assert not contents.parcels, f"what {name} sent never arrived"
            assert contents.listed or "@" in name or not watched.used, f"{name} is not listed"
            assert not contents.pending_partitions, f"{contents.pending_partitions} of {name} were never told"
            queue, partition = split_partition(name)
            if partition < self._journal.partitions(queue):
                first = self._journal.watched(queue)
                assert contents.config == first.contents.config, f"{name} has not the configuration of its queue"
            while garbage := watched.contents.garbage:
                await asyncio.sleep(LATEST + SLACK)
                assert watched.contents.garbage < garbage, f"{name} was purged and is not swept"
            left_over = (watched.contents.inline | self._journal.keys(name)) - watched.contents.keys
            assert not left_over, f"{name} leaves {left_over} behind"

    async def _every_queue_is_resumed(self) -> None:
        for name, watched in list(self._journal.queues.items()):
            if "@" not in name and watched.setting("paused"):
                await self._ask(name, "SetConfig", {"paused": False})
        await self._all_is_tidied_up()

    async def _what_waits_can_be_popped(self) -> None:
        """Each queue gives what the disk says it has, in order, and is empty then."""
        for name, watched in list(self._journal.queues.items()):
            contents = watched.contents
            expected = [entry.id(contents.partition) for entry in contents.waiting]
            popped: list[str] = []
            while answer := await self._pop(name):
                popped += answer
            assert popped == expected
            assert not watched.lives
        await self._all_is_tidied_up()
        for name in self._journal.queues:
            left = {key for key in self._journal.keys(name) if not key.startswith("received-")}
            assert left <= {"metadata", "config", "expired-locks"}

    async def _pop(self, actor: str) -> list[str]:
        answer = await self._ask(actor, "Pop", {"count": 100})
        return [message["id"] for message in answer["messages"]]

    async def _ask(self, actor: str, method: str, data: dict[str, Any]) -> Any:
        operation = Operation(method, data)
        call = self._server.ledger.asked(actor, operation, alone=True)
        answer = await self._server.call(QUEUE_TYPE, actor, method, data)
        self._server.ledger.answered(call, answer)
        return answer

    async def _the_index_knows_all(self) -> None:
        listed = [
            name for shard in range(SHARDS) for name in await self._server.call(QUEUE_INDEX_TYPE, str(shard), "List")
        ]
        assert len(listed) == len(set(listed))
        known = {name for name in self._journal.queues if "@" not in name}
        used = {name for name in known if self._journal.watched(name).used or self._journal.partitions(name) > 1}
        assert used <= set(listed) <= known

    def _ahead(self) -> dict[str, list[float]]:
        """The moments at which something is to happen by itself, in each queue in which something is."""
        ahead: dict[str, list[float]] = {}
        for name, watched in self._journal.queues.items():
            contents, window = watched.contents, watched.setting("dedup_window_seconds")
            ahead[name] = [
                *(lock.expires_at for lock in contents.locks.values()),
                *(group.due for group in contents.postponed),
                *([] if contents.deletion_ends is None else [contents.deletion_ends]),
                *(tick / TICKS_PER_SECOND for tick, _ in contents.due_index),
                *(at + window + CLAIM_LEEWAY * key.startswith("claims") for key, at in contents.remembered.items()),
            ]
        return {name: moments for name, moments in ahead.items() if moments}

    def _now(self) -> float:
        return self._server.loop.wall_clock()

    async def _sleep_until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self._now()))
