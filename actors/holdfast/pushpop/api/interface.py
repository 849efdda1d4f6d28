"""The actor methods of a queue, for the SDK's ``ActorProxy``.

They take and return the JSON objects of the REST interface. An actor call has no HTTP status, so a refusal is
returned by a successful call: ``{"success": False, "message": …, "error_code": …}``, and for a locked queue
``{"items": [], "count": 0, "locked": True, "lock_expires_at": …, "message": …}``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from dapr.actor import ActorInterface


class PushPopActorInterface(ActorInterface):
    @abstractmethod
    async def Push(self, data: dict[str, Any]) -> dict[str, Any]:
        """Pushes ``{item, priority, dedup_id, delay_seconds, ttl_seconds, idempotency_key, tenant_id}``.

        Or a list of such objects, ``{items: […]}``.
        """

    @abstractmethod
    async def Pop(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{count}``: removes items and returns them."""

    @abstractmethod
    async def PopWithAck(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{ttl_seconds, count}``: returns items under a lock."""

    @abstractmethod
    async def Acknowledge(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{lock_id}``"""

    @abstractmethod
    async def Abandon(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{lock_id, delay_seconds, error}``; without a delay, the queue's back-off applies if there is an error."""

    @abstractmethod
    async def Complete(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{ids}``: completes locked items of this partition, whichever locks hold them."""

    @abstractmethod
    async def Requeue(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{lock_id_prefix, delay_seconds, error}``: abandons another consumer's lock."""

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
    async def InFlight(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{count, max_bytes}``: limits on the items whose payloads are included."""

    @abstractmethod
    async def Stats(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Purge(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Delete(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{force}``: deletes the queue, which must be empty without ``force``."""

    @abstractmethod
    async def Revoke(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{id}``: removes one item that is not locked."""

    @abstractmethod
    async def DeadLetters(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """For a dead-letter queue: ``{limit, cursor, original_queue}``."""

    @abstractmethod
    async def Redrive(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """For a dead-letter queue: ``{ids, filter, max, cursor, original_queue}``.

        Repeat with the ``cursor`` of the reply while it has ``more``.
        """

    @abstractmethod
    async def DeleteDeadLetters(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """For a dead-letter queue: deletes dead letters, selected as for ``Redrive``."""

    @abstractmethod
    async def GetConfig(self) -> dict[str, Any]: ...

    @abstractmethod
    async def SetConfig(self, data: dict[str, Any]) -> dict[str, Any]:
        """The keys to change."""


class QueueServiceInterface(ActorInterface):
    """Internal methods, called by the gateway and by other queues."""

    @abstractmethod
    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{calls: [{method, data}, …]}``: runs all in one turn and one transaction, each with its own reply."""

    @abstractmethod
    async def AbandonOwned(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{owner, uncounted}``: abandons the locks of this owner."""

    @abstractmethod
    async def Claim(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{dedup_ids, partition}``: returns their partitions, and assigns new ids to this partition."""

    @abstractmethod
    async def Configure(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{config, version, generation}``: sets the configuration of a partition, and erases a deleted one."""

    @abstractmethod
    async def Close(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{version}``: stops pushes to a partition, which must be empty, while the queue is being deleted."""

    @abstractmethod
    async def PendingConfig(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{told: {partition, version}}``: returns the partitions that lack the current configuration."""

    @abstractmethod
    async def Transferred(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{number, accepted, busy}``: records whether the target accepted a transfer, and returns the next one.

        ``busy`` names the queues to which a transfer is under way; the next one is for another queue.
        """

    @abstractmethod
    async def ConfirmIndexed(self) -> dict[str, Any]:
        """Records that the index has this queue."""

    @abstractmethod
    async def ConfirmRemovedFromIndex(self) -> dict[str, Any]:
        """Records that the index does not have this queue."""

    @abstractmethod
    async def Receive(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{source, number, items}``: accepts a transfer of another queue."""
