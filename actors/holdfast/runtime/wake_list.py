"""The actors that have to be woken because their state was moved here without their reminders.

Dapr's scheduler keeps reminders apart from the state, and no other program can read or write them. So
``holdfast migrate`` stores this list with the state it moves: as the state of one actor, in pages. Every server works
it off when it starts. A page is deleted after all its reminders are registered, so after a crash they are registered
again, which costs a turn each at most.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dapr.actor import ActorInterface

from holdfast.errors import HoldfastError, InvalidRequest
from holdfast.kinds import WAKE_LIST_TYPE
from holdfast.logs import counted, message_of
from holdfast.runtime.actor_api.durations import go_duration
from holdfast.runtime.late_reminders import WAKE
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.unit_of_work import InternalActor

if TYPE_CHECKING:
    from holdfast.runtime.contract import HostClient

log = logging.getLogger(__name__)

#: The id of the only actor of its type.
ACTOR_ID = "moved"
#: Its values: the numbers of the first page and after the last one, and the pages of entries.
PAGES = "pages"
#: The entries of a page.
PAGE = 50
_AT_ONCE = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
# Like the reminders that the actors register themselves: retried until they succeed.
_UNTIL_IT_SUCCEEDS = {"constant": {"interval": "1s"}}


def page_key(number: int) -> str:
    return f"page-{number}"


class WakeListInterface(ActorInterface):
    @abstractmethod
    async def RegisterNext(self, data: dict[str, Any]) -> dict[str, Any]:
        """Registers the reminders of the next page, if its number is lower than ``before``.

        Returns ``{registered, left, before}``: how many, whether pages are left, and the number after the last page.
        """


class WakeListActor(InternalActor, WakeListInterface):
    """The list. An entry is ``[type, id]``, with a Unix time if the actor need not be woken before it.

    An entry ``{actor_type, actor_id, name, due_at, ttl_at?, body}`` is a reminder that an app's own actor registered;
    ``body`` has the other fields of Dapr's call.
    """

    exact_numbers = False

    serves_turns = True

    async def RegisterNext(self, data: dict[str, Any]) -> dict[str, Any]:
        match data:
            case {"before": int(number)}:
                asked: int | None = number
            case {} if not data:
                asked = None
            case _:
                raise InvalidRequest("This call takes {before}, the number of a page, or {}.")
        async with self.work.turn() as turn:
            first, following = await turn.load(PAGES) or (0, 0)
            before = following if asked is None else min(asked, following)
            if first >= before:
                return {"registered": 0, "left": False, "before": before}
            entries = await turn.load(page_key(first)) or []
            room = asyncio.Semaphore(_AT_ONCE)
            # All of them, whatever becomes of one, so that the page is not left half done for long.
            results = await asyncio.gather(*(self._register(entry, room) for entry in entries), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            turn.delete(page_key(first))
            first += 1
            if refused := [entry for entry, registered in zip(entries, results, strict=True) if not registered]:
                # For the next server: this one may have been started without the app that has these actors.
                turn.put(page_key(following), refused)
                following += 1
            turn.put(PAGES, None if first == following else [first, following])
        return {"registered": len(entries) - len(refused), "left": first < before, "before": before}

    async def _register(self, entry: Any, room: asyncio.Semaphore) -> bool:
        """Returns False if the host refuses the reminder."""
        now = self.now()
        if isinstance(entry, list):
            actor_type, actor_id, *rest = entry
            name, due_at = WAKE, rest[0] if rest else now
            body = {"period": "", "data": "", "failurePolicy": _UNTIL_IT_SUCCEEDS}
        else:
            actor_type, actor_id, name, due_at = (entry[key] for key in ("actor_type", "actor_id", "name", "due_at"))
            body = dict(entry["body"])
            if (ttl_at := entry.get("ttl_at")) is not None:
                if ttl_at <= max(now, due_at):
                    return True
                # Not as a duration, which would count from the due time.
                body["ttl"] = datetime.fromtimestamp(ttl_at, UTC).isoformat()
        body["dueTime"] = _until(due_at, now)
        try:
            async with room:
                await self.host.register_reminder(actor_type, actor_id, name, dump(body))
        except (HoldfastError, ValueError) as error:
            if isinstance(error, HoldfastError) and error.retryable:
                raise
            log.error(
                "reminder %s of %s %s cannot be registered, the next start of a server tries again: %s",
                *(name, actor_type, actor_id, error),
            )
            return False
        return True


async def work_off(client: HostClient) -> None:
    """Registers all reminders of the list. Retries until the host and its scheduler accept them."""
    registered = 0
    # Pages that are added meanwhile are for the next server.
    request: dict[str, Any] = {}
    pause = _FIRST_PAUSE
    while True:
        try:
            reply = load(await client.invoke_method(WAKE_LIST_TYPE, ACTOR_ID, "RegisterNext", dump(request)))
        except HoldfastError as error:
            if not error.retryable:
                raise
            log.info("the reminders of moved actors cannot be registered yet, retrying: %s", message_of(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            continue
        pause = _FIRST_PAUSE
        registered += reply["registered"]
        request["before"] = reply["before"]
        if not reply["left"]:
            break
    if registered:
        log.info("registered %s of actors that were moved here", counted(registered, "reminder"))


def _until(moment: float, now: float) -> str:
    """Returns the time until a moment as a duration of Go, rounded up to milliseconds."""
    return go_duration(timedelta(milliseconds=max(0, round((moment - now) * 1000))))
