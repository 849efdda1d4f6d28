"""The orchestration's actor methods: they take and return the JSON objects of the REST interface.

A refusal comes back in a successful call: ``{"success": False, "message": …, "error_code": …}``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from dapr.actor import ActorInterface

ORCHESTRATION_TYPE = "OrchestrationActor"


class OrchestrationActorInterface(ActorInterface):
    @abstractmethod
    async def Start(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{name, input, version}``: begins, unless the instance exists already."""

    @abstractmethod
    async def RaiseEvent(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{name, data, event_id}``"""

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
        """What it is, and what came of it."""

    @abstractmethod
    async def History(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{limit, cursor, recorded}``: the events of its present execution."""

    @abstractmethod
    async def Delete(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """``{force}``: also one that has not ended."""


class OrchestrationServiceInterface(ActorInterface):
    """What the gateway, workers and other instances ask, and nobody else."""

    @abstractmethod
    async def Batch(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{calls: [{method, data}, …]}``: one turn and one transaction for all, each with an answer of its own."""

    @abstractmethod
    async def Wait(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{doorbell}``: the status of one that has ended; else the doorbell is told of it later."""

    @abstractmethod
    async def Outcome(self, data: dict[str, Any]) -> dict[str, Any]:
        """How something ended that this instance had scheduled."""

    @abstractmethod
    async def Awaited(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{execution_id, scheduled_seq}``: whether anybody still waits for this activity."""

    @abstractmethod
    async def Listed(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{status}``: what the index of instances knows."""

    @abstractmethod
    async def Sent(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{number}``: what was to be sent has arrived."""

    @abstractmethod
    async def Wake(self) -> dict[str, Any]:
        """It may owe others something that a process which died did not tell them. Answers ``{owes_nothing}``."""
