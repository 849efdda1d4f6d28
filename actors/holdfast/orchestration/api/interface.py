"""The orchestration's actor methods: they take and return the JSON objects of the REST interface.

A refusal comes back in a successful call: ``{"success": False, "message": …, "error_code": …}``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from dapr.actor import ActorInterface


class OrchestrationActorInterface(ActorInterface):
    @abstractmethod
    async def Start(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{name, input, version, tags, priority, start_at, event}``: starts the instance unless it exists already."""

    @abstractmethod
    async def RaiseEvent(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{name, data, event_id}``"""

    @abstractmethod
    async def Request(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{name, data, request_id}``: makes a request, once for each id, and returns ``{request_id, reply}``.

        ``{request_id, answered: false}`` when there is no reply yet: repeat the call to get it later.
        """

    @abstractmethod
    async def Cancel(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{reason}``"""

    @abstractmethod
    async def Suspend(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{reason}``"""

    @abstractmethod
    async def Resume(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Status(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """Returns the status with input, output, error and custom status."""

    @abstractmethod
    async def History(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{limit, cursor, recorded}``: returns the events of the current execution."""

    @abstractmethod
    async def Delete(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{force}``: deletes the instance; with ``force`` also one that has not ended."""


class OrchestrationServiceInterface(ActorInterface):
    """Internal methods, for the gateway, workers and other instances only."""

    @abstractmethod
    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{calls: [{method, data}, …]}``: makes all calls in one turn and one transaction, with one reply each."""

    @abstractmethod
    async def Wait(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{notify}``: returns the status of an ended instance; otherwise calls the notifier when it ends."""

    @abstractmethod
    async def Reply(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{request_id, notify}``: returns the reply to a request as ``Request`` does, or calls the notifier later."""

    @abstractmethod
    async def CopyHistory(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{execution_id, after}``: returns ``{execution_id, events, last, seed}``, events as stored, for a rerun."""

    @abstractmethod
    async def Rerun(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{copied, version}``: starts this instance from events copied from another one, unless it exists."""

    @abstractmethod
    async def NoteRerun(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{rerun_id, incarnation}``: adds a rerun of this instance to its list."""

    @abstractmethod
    async def Complete(self, data: dict[str, Any]) -> dict[str, Any]:
        """Delivers the outcome of an activity or a child that this instance scheduled."""

    @abstractmethod
    async def CancelChild(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{reason, parent}``: cancels this instance if it is a child of that parent, and changes nothing if not."""

    @abstractmethod
    async def IsAwaited(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{execution_id, scheduled_seq}``: returns whether the instance still waits for this activity.

        With ``heartbeat_details``, if it has reported any.
        """

    @abstractmethod
    async def Heartbeat(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{execution_id, scheduled_seq, details}``: saves the details, and returns as ``IsAwaited`` does."""

    @abstractmethod
    async def State(self) -> dict[str, Any]:
        """Returns ``{status}``: as ``Status`` does, without reading the payloads."""

    @abstractmethod
    async def Check(self) -> dict[str, Any]:
        """Replays the instance: it becomes BLOCKED if its code does not fit, and continues if it fits again."""

    @abstractmethod
    async def ConfirmIndexed(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{indexed_as}``: records which entry the instance index has."""

    @abstractmethod
    async def ConfirmDispatched(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{number}``: removes delivered effects from the stored form of an outbox entry."""

    @abstractmethod
    async def Rescue(self) -> dict[str, Any]:
        """Dispatches the outbox and index entry that a crashed process may have left. Returns ``{owes_nothing}``."""
