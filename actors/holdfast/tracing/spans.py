"""Makes spans with OpenTelemetry's API, once :func:`begin` has been given a tracer provider.

Trace contexts go in and out as text, the ``traceparent`` of W3C, because that is how they are stored and sent. Without
a provider :func:`tracer` returns None, and nothing of OpenTelemetry is imported.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from holdfast.tracing.traceparent import span_id, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Attributes = Mapping[str, str | int | bool]

_tracer: Tracer | None = None
#: The context of a call of another program to an actor, for requests that carry none themselves.
incoming: ContextVar[str | None] = ContextVar("holdfast_traceparent", default=None)


class Tracer:
    """Makes spans."""

    def __init__(self, provider: Any, version: str) -> None:
        from opentelemetry import context, trace

        self._api = trace
        self._nothing = context.Context()
        self._tracer = provider.get_tracer("holdfast", version)
        self._ids = _SpanIds(self._tracer.id_generator)
        self._tracer.id_generator = self._ids

    def start(
        self,
        name: str,
        parent: str | None,
        *,
        kind: str = "INTERNAL",
        own_id: str | None = None,
        began: float | None = None,
        attributes: Attributes | None = None,
        linked: Sequence[str] = (),
    ) -> Any:
        """Returns a new span of OpenTelemetry, which the caller ends. Without a parent it begins a trace."""
        self._ids.set_next(own_id)
        try:
            return self._tracer.start_span(
                name,
                context=self._nothing if parent is None else self._context(parent),
                kind=self._api.SpanKind[kind],
                attributes=attributes,
                links=[self._api.Link(self._span_context(text)) for text in linked],
                start_time=None if began is None else _nanoseconds(began),
                record_exception=False,
                set_status_on_exception=False,
            )
        finally:
            self._ids.set_next(None)

    def record(
        self, name: str, parent: str | None, began: float, ended: float, *, failed: str | None = None, **options: Any
    ) -> None:
        """Makes a span of the past. ``failed`` is the type of the error it ended with, never a message."""
        span = self.start(name, parent, began=began, **options)
        if failed is not None:
            self.fail(span, failed)
        span.end(_nanoseconds(max(began, ended)))

    def fail(self, span: Any, error_type: str) -> None:
        """Marks a span as failed. The error's message stays away: it may hold payloads."""
        span.set_attribute("error.type", error_type)
        span.set_status(self._api.Status(self._api.StatusCode.ERROR, error_type))

    @contextmanager
    def current(self, span: Any) -> Iterator[None]:
        """A context in which the span is the current one. It does not end the span."""
        with self._api.use_span(span, record_exception=False, set_status_on_exception=False):
            yield

    @contextmanager
    def span(self, name: str, parent: str | None, **options: Any) -> Iterator[Any]:
        """A context that is a span, and the current one. An exception marks it as failed."""
        span = self.start(name, parent, **options)
        try:
            with self.current(span):
                yield span
        except BaseException as error:
            self.fail(span, type(error).__name__)
            raise
        finally:
            span.end()

    def _context(self, parent: str) -> Any:
        return self._api.set_span_in_context(self._api.NonRecordingSpan(self._span_context(parent)), self._nothing)

    def _span_context(self, text: str) -> Any:
        _, trace_id, own_id, flags = text.split("-")
        return self._api.SpanContext(int(trace_id, 16), int(own_id, 16), True, self._api.TraceFlags(int(flags, 16)))


class _SpanIds:
    """OpenTelemetry's id generator of our tracer: random ids, unless the id of the next span of this thread is set."""

    def __init__(self, random: Any) -> None:
        self._random = random
        self._of_thread = threading.local()

    def set_next(self, own_id: str | None) -> None:
        self._of_thread.own_id = own_id

    def generate_span_id(self) -> int:
        own_id: str | None = getattr(self._of_thread, "own_id", None)
        return int(self._random.generate_span_id()) if own_id is None else int(own_id, 16)

    def generate_trace_id(self) -> int:
        return int(self._random.generate_trace_id())

    def is_trace_id_random(self) -> bool:
        return bool(getattr(self._random, "is_trace_id_random", bool)())


def begin(provider: Any) -> None:
    """Makes spans with a tracer provider of OpenTelemetry's SDK from now on; with None, makes none any more."""
    from holdfast import __version__

    global _tracer
    _tracer = None if provider is None else Tracer(provider, __version__)


def tracer() -> Tracer | None:
    """Returns what makes spans in this process; None without tracing."""
    return _tracer


def current() -> str | None:
    """Returns the context of the current span, also of one that the program made itself."""
    api = sys.modules.get("opentelemetry.trace")
    return None if api is None else context_of(api.get_current_span())


def context_of(span: Any) -> str | None:
    """Returns the context of a span, as text; None if it has none."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def context_of_instance(traceparent: str | None, instance_id: str, incarnation: str | None) -> str | None:
    """Returns the context that an instance gives to what it causes: that of its own span, if spans are made here."""
    if traceparent is None or _tracer is None:
        return traceparent
    return within(traceparent, instance_span(instance_id, incarnation))


def instance_span(instance_id: str, incarnation: str | None) -> str:
    """Returns the id of the span of an instance, which ends in another process than it began in."""
    return span_id("instance", instance_id, incarnation or "")


def call_span(instance_id: str, incarnation: str | None, execution_id: int, seq: int) -> str:
    """Returns the id of the span in which an instance sends an activity to its queue."""
    return span_id("call", instance_id, incarnation or "", execution_id, seq)


def _nanoseconds(moment: float) -> int:
    return int(moment * 1_000_000_000)


def now() -> float:
    """Returns the time for spans."""
    return time.time()
