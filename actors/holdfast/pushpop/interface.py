"""The queue's actor methods, for the SDK's ``ActorProxy``.

They take and return the JSON objects of the REST interface. An actor call has no status of its own, so a refusal
comes back in a successful call: ``{"success": False, "message": …, "error_code": …}``, and a locked queue as
``{"items": [], "count": 0, "locked": True, "lock_expires_at": …, "message": …}``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from dapr.actor import ActorInterface

ACTOR_TYPE = "PushPopActor"


class PushPopActorInterface(ActorInterface):
    @abstractmethod
    async def Push(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{item, priority, dedup_id, delay_seconds, ttl_seconds, idempotency_key, tenant_id}``.

        Or ``{items: [those]}``.
        """

    @abstractmethod
    async def Pop(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{count}``: takes for good."""

    @abstractmethod
    async def PopWithAck(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{ttl_seconds, count}``: takes under a lock."""

    @abstractmethod
    async def Acknowledge(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{lock_id}``"""

    @abstractmethod
    async def Abandon(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{lock_id, delay_seconds, error}``"""

    @abstractmethod
    async def Complete(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{ids}``: locked items of this partition, whichever locks have them."""

    @abstractmethod
    async def Requeue(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{lock_id_prefix, delay_seconds, error}``: abandons somebody else's lock."""

    @abstractmethod
    async def ExtendByPrefix(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{lock_id_prefix, additional_ttl_seconds}``"""

    @abstractmethod
    async def ExtendLock(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{lock_id, additional_ttl_seconds}``"""

    @abstractmethod
    async def DeadLetter(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{lock_id, reason}``"""

    @abstractmethod
    async def Peek(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{count}``"""

    @abstractmethod
    async def InFlight(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Stats(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Purge(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Revoke(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{id}``: removes one item that is not locked."""

    @abstractmethod
    async def DeadLetters(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """Of a dead-letter queue: ``{limit, cursor, original_queue}``."""

    @abstractmethod
    async def Redrive(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """Of a dead-letter queue: ``{ids, max, cursor, original_queue}``. To be repeated while there are ``more``."""

    @abstractmethod
    async def GetConfig(self) -> dict[str, Any]: ...

    @abstractmethod
    async def SetConfig(self, data: dict[str, Any]) -> dict[str, Any]:
        """The keys to change."""


class QueueServiceInterface(ActorInterface):
    """What the gateway and other queues ask, and nobody else."""

    @abstractmethod
    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{calls: [{method, data}, …]}``: one turn and one transaction for all, each with an answer of its own."""

    @abstractmethod
    async def GiveBackMarked(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{mark}``: what is under locks with this mark."""

    @abstractmethod
    async def Claim(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{dedup_ids, partition}``: where items with these belong; to this partition, if they are new."""

    @abstractmethod
    async def Configure(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{config, version}``: what the queue tells its partitions."""

    @abstractmethod
    async def Untold(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{told: {partition, version}}``: which partitions do not know the configuration yet."""

    @abstractmethod
    async def Transferred(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """Another queue has what was transferred to it: ``{number}``. Answers what is to be transferred next."""

    @abstractmethod
    async def Listed(self) -> dict[str, Any]:
        """The index knows this queue."""

    @abstractmethod
    async def Receive(self, data: dict[str, Any]) -> dict[str, Any]:
        """What another queue transfers: ``{source, number, items}``."""
