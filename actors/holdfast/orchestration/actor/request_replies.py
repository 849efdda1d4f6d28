"""Requests to an instance: delivers them, finds their replies, and notifies the callers that wait for a reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, NotFound, OrchestrationEnded
from holdfast.orchestration.api import replies as answers
from holdfast.runtime.notifier import notify
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from holdfast.orchestration.actor.loaded_instance import LoadedInstance
    from holdfast.orchestration.core.messages import MakeRequest
    from holdfast.runtime.background import BackgroundTasks
    from holdfast.runtime.contract import HostClient
    from holdfast.runtime.unit_of_work import Turn

Answer = dict[str, Any]

# Requests of one instance with subscribers. Callers of further ones ask again from time to time.
_MAX_SUBSCRIBED = 10_000


async def make_request(turn: Turn, state: LoadedInstance, message: MakeRequest) -> Answer:
    """Delivers a request, unless it was received before. Returns its reply, or that there is none yet."""
    found = await find_reply(turn, state, message.request_id)
    if found is not None:
        return found
    reply = await state.deliver(turn, message)
    if isinstance(reply, HoldfastError):
        raise reply
    return await find_reply(turn, state, message.request_id) or answers.unanswered(message.request_id)


async def find_reply(turn: Turn, state: LoadedInstance, request_id: str) -> Answer | None:
    """Returns the reply to a request; None while the request is open or unknown. Raises OrchestrationEnded."""
    record = state.record
    if not record.exists:
        raise NotFound(f"There is no orchestration {record.instance_id}.")
    found = await turn.drive(record.replies.read(request_id))
    if found is not None:
        return answers.replied(request_id, found)
    if record.ended:
        raise OrchestrationEnded(
            f"The orchestration {record.instance_id} has ended without a reply to the request.", request_id=request_id
        )
    return None


async def read_reply(turn: Turn, state: LoadedInstance, request_id: str) -> Answer:
    """Returns the reply to a request, or that there is none yet. Raises NotFound for an unknown request."""
    found = await find_reply(turn, state, request_id)
    if found is not None:
        return found
    if await state.has_request(turn, request_id):
        return answers.unanswered(request_id)
    # Bringing the code back may have answered it.
    found = await find_reply(turn, state, request_id)
    if found is None:
        raise NotFound("The instance has no such request, or its reply is no longer kept.", request_id=request_id)
    return found


class ReplySubscribers:
    """The notifiers of the callers that wait for replies. Not saved: callers ask again from time to time."""

    def __init__(self, host: HostClient, background: BackgroundTasks) -> None:
        self._host = host
        self._background = background
        self._notifiers: dict[str, set[str]] = {}

    def add(self, request_id: str, notifier: str) -> None:
        if request_id in self._notifiers or len(self._notifiers) < _MAX_SUBSCRIBED:
            self._notifiers.setdefault(request_id, set()).add(notifier)

    def is_subscribed(self, request_id: str) -> bool:
        return request_id in self._notifiers

    def notify(self, topic: str, answered: dict[str, Answer]) -> None:
        """Sends replies to the callers that wait for them."""
        for request_id, answer in answered.items():
            self._notify(topic, request_id, dump(answer).decode())

    def notify_all(self, topic: str) -> None:
        """Wakes all that wait, because there will be no further replies."""
        for request_id in list(self._notifiers):
            self._notify(topic, request_id, None)

    def _notify(self, topic: str, request_id: str, payload: str | None) -> None:
        for notifier in self._notifiers.pop(request_id, ()):
            notify(self._host, self._background, notifier, f"{topic} {request_id}", payload)
