"""The actor methods of a schedule. They take and return JSON objects; a refusal is a successful call."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from dapr.actor import ActorInterface


class ScheduleActorInterface(ActorInterface):
    @abstractmethod
    async def Put(self, data: dict[str, Any]) -> dict[str, Any]:
        """Makes the schedule, or replaces its definition."""

    @abstractmethod
    async def Get(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Pause(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Resume(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Trigger(self) -> dict[str, Any]:
        """Starts an instance now: ``{instance_id}``."""

    @abstractmethod
    async def Backfill(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{from, to}``: starts the instances of the ticks in between; ``{ticks}`` is their number."""

    @abstractmethod
    async def Delete(self) -> dict[str, Any]: ...

    @abstractmethod
    async def Declare(self, data: dict[str, Any]) -> dict[str, Any]:
        """Like ``Put``, for a schedule that is declared in code: an existing one stays paused, or not."""

    @abstractmethod
    async def Undeclare(self) -> dict[str, Any]:
        """Pauses a schedule that was declared in code."""

    @abstractmethod
    async def ConfirmCalls(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{created_at, made: {number: error or null}}``: these calls to instances of the schedule were made."""

    @abstractmethod
    async def ConfirmIndexed(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{listed}``: the index has the schedule, or no longer has it."""
