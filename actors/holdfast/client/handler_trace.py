"""The span of handling a message, where the program makes spans with OpenTelemetry."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from holdfast.tracing import environment, spans

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from holdfast.client.models import Message


def begin_tracing() -> None:
    """Makes spans from now on if the program has set a tracer provider."""
    if spans.tracer() is None:
        environment.set_up(only_existing=True)


def handling(queue: str, message: Message) -> AbstractContextManager[Any]:
    """Returns a context for the handler of a message that belongs to a trace."""
    tracer = spans.tracer()
    if tracer is None or message.traceparent is None:
        return nullcontext()
    attributes = {
        "messaging.destination.name": queue,
        "messaging.message.id": message.id,
        "holdfast.delivery_count": message.delivery_count,
    }
    return tracer.span(f"process {queue}", message.traceparent, kind="CONSUMER", attributes=attributes)
