"""The spans of actor turns: one for each call of a turn that belongs to a trace, from the turn's begin to its save."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.tracing import spans
from holdfast.tracing.traceparent import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Call = tuple[str, Any]


@contextmanager
def traced_turn(actor_type: str, calls: Sequence[Call], *, begins: str | None = None) -> Iterator[Sequence[Call]]:
    """A context for a turn: yields the calls, each with the trace context that it stores.

    A call of the method ``begins`` without a context begins a trace.
    """
    tracer = spans.tracer()
    if tracer is None:
        yield calls
        return
    traced: list[Call] = []
    opened: list[Any] = []
    for method, data in calls:
        parent = _context_in(data)
        if parent is None and (method != begins or not isinstance(data, dict)):
            traced.append((method, data))
            continue
        span = tracer.start(f"{actor_type} {method}", parent)
        opened.append(span)
        traced.append((method, data if parent is not None else {**data, "traceparent": spans.context_of(span)}))
    try:
        yield traced
    except BaseException as error:
        for span in opened:
            tracer.fail(span, type(error).__name__)
        raise
    finally:
        for span in opened:
            span.end()


def with_incoming(data: Any) -> Any:
    """Returns the data of a direct call with the context of its caller, unless it has one of its own."""
    context = spans.incoming.get()
    if context is None or not isinstance(data, dict) or "traceparent" in data:
        return data
    return {**data, "traceparent": context}


def _context_in(data: Any) -> str | None:
    if not isinstance(data, dict):
        return getattr(data, "traceparent", None)
    context = data.get("traceparent")
    if context is None and isinstance(items := data.get("items"), list) and items and isinstance(items[0], dict):
        # The activities of one instance, which it pushes together.
        context = items[0].get("traceparent")
    # Not validated yet.
    return read(context) if isinstance(context, str) else None
