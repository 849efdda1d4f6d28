"""What an actor has done for it after its turn: calls to others that its own callers do not wait for."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

log = logging.getLogger(__name__)


class Errands:
    """At most one of each name at a time. Asked for again while it runs, it runs once more.

    An errand is outside every turn, so two actors that call each other do not wait for each other for ever. One that
    fails is only logged: whoever starts errands also has a reminder that starts them again.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def start(self, name: str, errand: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if name in self._running:
            self._again[name] = errand  # the one that runs may have looked too early to see what this one is for
        else:
            # A context of its own: it must not count as a part of the turn that started it.
            task = asyncio.get_running_loop().create_task(self._run(name, errand), context=contextvars.Context())
            self._running[name] = task

    async def close(self) -> None:
        """Ends those that run; what they had to do is still owed."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, name: str, errand: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await errand()
            while following := self._again.pop(name, None):
                await following()
        except HoldfastError as error:
            log.warning("%s of %s: %s", name, self._owner, error)
        except Exception:
            # Nobody awaits an errand, so its fault is told here or nowhere.
            log.exception("%s of %s", name, self._owner)
        finally:
            self._again.pop(name, None)
            del self._running[name]
