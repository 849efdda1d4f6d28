"""The operations of tests on a host of any kind: call its actors, read its store, end its processes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

#: No argument at all, which is not the same as null.
ABSENT = object()


class CallFailed(Exception):
    """A call to an actor that failed, as its caller sees it."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.details = details or {}


class Stack(ABC):
    """A host and all it needs, with the suite's actors. Tests of one stack run one after the other."""

    name: ClassVar[str]
    #: After so many seconds without a call an actor is deactivated.
    idle_timeout: ClassVar[float] = 2.0

    @abstractmethod
    def run(self, body: Coroutine[Any, Any, None]) -> None:
        """Runs a test's body on this stack's event loop."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    async def call(self, actor_type: str, actor_id: str, method: str, data: Any = ABSENT) -> Any:
        """Raises CallFailed; its code is UNREACHABLE when there was no answer."""

    @abstractmethod
    async def stored(self, actor_type: str, actor_id: str) -> dict[str, Any]:
        """Returns the actor's stored values, read past the host."""

    @abstractmethod
    async def stored_keys(self) -> set[str]:
        """Every key in the store."""

    @abstractmethod
    async def kill_app(self) -> None:
        """Ends the process that runs the actors, as ``kill -9`` does."""

    @abstractmethod
    async def start_app(self) -> None:
        """Starts it again and waits until it takes calls."""

    @abstractmethod
    async def kill_all(self) -> None:
        """Ends every process but the database."""

    @abstractmethod
    async def start_all(self) -> None: ...

    async def pass_time(self, seconds: float) -> None:
        """Where what is awaited is that nothing happens, or that a deadline passes unseen."""
        await asyncio.sleep(seconds)
