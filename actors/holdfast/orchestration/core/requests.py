"""Requests: mail whose sender waits for a reply. The code of an instance takes them in order and answers each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.orchestration.core.box_keys import request_box, requested, returned_box
from holdfast.orchestration.core.history import RequestAnswered
from holdfast.orchestration.core.payloads import ANYTHING, keepable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.orchestration.core.commands import Commands
    from holdfast.orchestration.core.history import Event, Json
    from holdfast.orchestration.core.mailboxes import Mail, Mailboxes

Data = TypeVar("Data")

#: How many of the last replies of an instance are kept.
MAX_REPLIES = 1000
#: The characters of the message of a rejected request.
MAX_REJECTION = 1024
#: The error code of a request whose data does not have the type that the code asked for.
INVALID = "INVALID_REQUEST"


class Request(Generic[Data]):
    """A request that the code has taken. Answer it once, with ``reply`` or ``reject``."""

    def __init__(self, request_id: str, data: Data, answer: Callable[..., None]) -> None:
        self.request_id = request_id
        self.data = data
        self._answer = answer
        self._answered = False

    def reply(self, value: Any = None) -> None:
        """Sends a JSON value or a pydantic model as the reply."""
        self._answer_once(reply=keepable(ANYTHING.dump(value), "A reply"))

    def reject(self, message: str) -> None:
        """Refuses the request: its sender gets the error ``REJECTED`` with this message, of at most 1024 characters."""
        if not isinstance(message, str):
            raise TypeError(f"a request is rejected with a text, not with {type(message).__name__}")
        self._answer_once(rejected=message[:MAX_REJECTION].replace("\0", "\ufffd"))

    def _answer_once(self, **answer: Any) -> None:
        if self._answered:
            raise RuntimeError(f"The request {self.request_id} was answered before.")
        self._answer(**answer)
        self._answered = True

    def __repr__(self) -> str:
        return f"Request({self.request_id!r})"


class AnsweredIds:
    """The ids of the last answered requests, for an instance whose replies are not stored."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._ids

    def note(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, RequestAnswered):
                self._ids[event.request_id] = None
                if len(self._ids) > MAX_REPLIES:
                    del self._ids[next(iter(self._ids))]


class Requests:
    """The requests of one execution that are not answered: those that are unread, and those that the code has taken."""

    def __init__(self, mailboxes: Mailboxes, open_ids: set[str] | None = None) -> None:
        self._mailboxes = mailboxes
        if open_ids is None:
            open_ids = {mail.request_id for mail in mailboxes.waiting() if mail.request_id is not None}
        self._open = open_ids
        self._taken: dict[str, Mail] = {}

    def __contains__(self, request_id: object) -> bool:
        """Returns whether a request was received and is not answered."""
        return request_id in self._open

    def declares(self, name: str) -> bool:
        return request_box(name) in self._mailboxes

    def received(self, request_id: str) -> None:
        self._open.add(request_id)

    async def take(self, name: str, now: float) -> Mail:
        """Waits for the oldest unread request of this name. Returned requests come before all others."""
        returned = returned_box(name)
        box = returned if self._mailboxes.has_unread(returned) else request_box(name)
        mail = await self._mailboxes.take(box, now)
        assert mail.request_id is not None
        self._taken[mail.request_id] = mail
        return mail

    def answer(self, commands: Commands, name: str, request_id: str, **answer: Any) -> None:
        """Records the answer to a request that the code has taken."""
        commands.ask(None, RequestAnswered, name=name, request_id=request_id, **answer)
        self._mailboxes.unread.remove(self._taken.pop(request_id).data)
        self._open.remove(request_id)

    def returned(self) -> list[tuple[str, Json, str | None]]:
        """Returns the requests that the code has taken and not answered: their new box, their data and their ids."""
        return [
            (returned_box(requested(mail.mailbox) or ""), mail.data, mail.request_id) for mail in self._taken.values()
        ]

    def hand_on(self, mailboxes: Mailboxes) -> Requests:
        """Returns the requests of the next execution, which has these mailboxes. The ids are reused, not copied."""
        return Requests(mailboxes, self._open)
