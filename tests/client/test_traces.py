"""The client sends the trace context of its program, and handlers run in spans of the trace of their message."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.tracing import spans
from tests.client.test_consume import consuming, drained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast import Client
    from holdfast.client import Message, Queue


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans.begin(provider)
    yield exporter
    spans.begin(None)


async def test_a_handler_runs_in_the_trace_of_its_message(queue: Queue, exported: InMemorySpanExporter) -> None:
    tracer = spans.tracer()
    assert tracer is not None
    with tracer.span("caller", None) as caller:
        await queue.push("traced")
    await queue.push("untraced")
    seen: dict[str, tuple[str | None, str | None]] = {}

    async def handler(message: Message) -> None:
        seen[message.item] = (message.traceparent, spans.current())

    async with consuming(queue, handler):
        await drained(queue)
    # The server makes no spans, and passes the context on.
    assert seen["traced"][0] == spans.context_of(caller)
    assert seen["untraced"] == (None, None)
    [handled] = [span for span in exported.get_finished_spans() if span.name.startswith("process ")]
    assert seen["traced"][1] == f"00-{handled.context.trace_id:032x}-{handled.context.span_id:016x}-03"
    assert handled.parent.span_id == caller.get_span_context().span_id


async def test_a_failed_handler_marks_its_span(queue: Queue, exported: InMemorySpanExporter) -> None:
    tracer = spans.tracer()
    assert tracer is not None
    with tracer.span("caller", None):
        await queue.push("bad")
    failed = asyncio.Event()

    async def handler(message: Message) -> None:
        failed.set()
        raise ValueError("the card 1234")

    async with consuming(queue, handler), asyncio.timeout(30):
        await failed.wait()
    [handled] = [span for span in exported.get_finished_spans() if span.name.startswith("process ")]
    assert handled.attributes["error.type"] == "ValueError"
    assert "1234" not in handled.to_json()


async def test_an_instance_keeps_the_context_of_its_start(
    client: Client, instance_id: str, exported: InMemorySpanExporter
) -> None:
    tracer = spans.tracer()
    assert tracer is not None
    with tracer.span("caller", None) as caller:
        run = await client.start("reporting", 1, instance_id=instance_id)
    started = await anext(aiter(run.history()))
    assert started.details["traceparent"] == spans.context_of(caller)
