"""Stores the schedules that the deployed code declares, and pauses those that it no longer declares."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.kinds import SCHEDULE_INDEX_TYPE, SCHEDULE_TYPE
from holdfast.logs import message_of
from holdfast.names import DEFAULT_TENANT
from holdfast.runtime.serialization import dump, load
from holdfast.schedules.index import index_of

if TYPE_CHECKING:
    from holdfast.orchestration.registry import Registry
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

_PAGE = 100
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0


class Declarations:
    """The declared schedules of a server's apps. They belong to the default tenant."""

    def __init__(self, client: HostClient, registry: Registry) -> None:
        self._client = client
        self._declared = {schedule["orchestration"]: schedule for schedule in registry.schedules}

    async def run(self) -> None:
        """Stores the declarations once, as soon as actors can be called."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._store()
            except Exception as error:
                # Of any kind: the server works without, and the next attempt may succeed.
                log.warning("the declared schedules are not stored yet: %s", message_of(error))
            else:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _store(self) -> None:
        for name, definition in self._declared.items():
            answer = await self._ask(name, "Declare", definition)
            if answer.get("success") is False:
                log.error("the schedule %s is not stored: %s", name, answer["message"])
        after = ""
        while True:
            asked = dump({"after": after, "limit": _PAGE})
            found = await self._client.invoke_method(SCHEDULE_INDEX_TYPE, index_of(DEFAULT_TENANT), "List", asked)
            names: list[str] = load(found)
            for name in names:
                if name not in self._declared:
                    await self._ask(name, "Undeclare", None)
            if len(names) < _PAGE:
                return
            after = names[-1]

    async def _ask(self, name: str, method: str, data: Any) -> dict[str, Any]:
        body = b"" if data is None else dump(data)
        answer: dict[str, Any] = load(await self._client.invoke_method(SCHEDULE_TYPE, name, method, body))
        return answer
