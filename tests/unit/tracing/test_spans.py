"""Spans with OpenTelemetry's SDK, and what is done without it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.errors import SettingsError
from holdfast.tracing import environment, spans
from holdfast.tracing.turns import traced_turn, with_incoming

if TYPE_CHECKING:
    from collections.abc import Iterator

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans.begin(provider)
    yield exporter
    spans.begin(None)


def tracer() -> spans.Tracer:
    found = spans.tracer()
    assert found is not None
    return found


def test_a_span_of_the_past_gets_the_derived_id_and_only_that_one(exported: InMemorySpanExporter) -> None:
    tracer().record("first", PARENT, 1.0, 2.5, own_id="00000000000000ab", failed="ValueError", linked=(PARENT,))
    tracer().record("second", PARENT, 3.0, 2.0)
    first, second = exported.get_finished_spans()
    assert spans.context_of(trace.NonRecordingSpan(first.context)) == PARENT.replace(
        "00f067aa0ba902b7", "0" * 14 + "ab"
    )
    assert (first.start_time, first.end_time) == (1_000_000_000, 2_500_000_000)
    assert (first.parent.span_id, first.links[0].context.span_id) == (0x00F067AA0BA902B7, 0x00F067AA0BA902B7)
    assert (first.status.is_ok, first.attributes["error.type"]) == (False, "ValueError")
    assert second.context.span_id != first.context.span_id
    assert second.end_time == second.start_time
    assert second.status.is_unset


def test_an_exception_names_its_type_and_not_its_message(exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="1234"), tracer().span("outer", None):
        raise ValueError("the card 1234")
    assert spans.current() is None
    [span] = exported.get_finished_spans()
    assert span.parent is None
    assert "1234" not in span.to_json()


def test_a_span_is_the_current_one_inside(exported: InMemorySpanExporter) -> None:
    with tracer().span("outer", PARENT) as outer:
        assert spans.current() == spans.context_of(outer)
        with tracer().span("inner", spans.current()):
            pass
    inner, _ = exported.get_finished_spans()
    assert spans.context_of(outer) == spans.context_of(trace.NonRecordingSpan(inner.parent))


def test_a_turn_has_a_span_for_each_call_of_a_trace(exported: InMemorySpanExporter) -> None:
    calls = [
        ("Push", {"item": 1, "traceparent": PARENT}),
        ("Push", {"items": [{"item": 1, "traceparent": PARENT}]}),
        ("Push", {"item": 1}),
        ("Push", {"item": 1, "traceparent": "not valid"}),
        ("Pop", None),
    ]
    with traced_turn("PushPopActor", calls) as traced:
        assert list(traced) == calls
        assert exported.get_finished_spans() == ()
    assert [span.name for span in exported.get_finished_spans()] == ["PushPopActor Push"] * 2


def test_a_start_without_a_context_begins_a_trace(exported: InMemorySpanExporter) -> None:
    with traced_turn("OrchestrationActor", [("Start", {"name": "order"})], begins="Start") as traced:
        [(_, data)] = traced
    [span] = exported.get_finished_spans()
    assert data == {"name": "order", "traceparent": f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-03"}


def test_without_tracing_a_turn_is_left_as_it_is() -> None:
    calls = [("Start", {"name": "order"})]
    with traced_turn("OrchestrationActor", calls, begins="Start") as traced:
        assert traced is calls


def test_the_context_of_a_direct_call_is_taken_unless_the_call_has_one() -> None:
    token = spans.incoming.set(PARENT)
    try:
        assert with_incoming({"name": "order"}) == {"name": "order", "traceparent": PARENT}
        assert with_incoming({"traceparent": "own"}) == {"traceparent": "own"}
        assert with_incoming(None) is None
    finally:
        spans.incoming.reset(token)


def test_an_instance_passes_its_own_span_on_only_where_spans_are_made(exported: InMemorySpanExporter) -> None:
    own = spans.context_of_instance(PARENT, "order-1", "seed")
    assert own == PARENT.replace("00f067aa0ba902b7", spans.instance_span("order-1", "seed"))
    assert spans.context_of_instance(None, "order-1", "seed") is None
    spans.begin(None)
    assert spans.context_of_instance(PARENT, "order-1", "seed") == PARENT


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
    ],
)
def test_the_variables_leave_tracing_off(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    environment.set_up()
    assert spans.tracer() is None


def test_an_exporter_that_is_not_installed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(SettingsError, match="zipkin"):
        environment.set_up()
    assert spans.tracer() is None


def test_a_protocol_whose_exporter_is_not_installed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(SettingsError, match="otlp_proto_grpc"):
        environment.set_up()


def test_without_the_extra_the_log_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    # Importing it raises ImportError.
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    environment.set_up()
    assert spans.tracer() is None
    assert "pip install 'holdfast[tracing]'" in caplog.text


def test_without_the_variables_opentelemetry_is_not_imported() -> None:
    code = (
        "import sys, holdfast, holdfast.client.api.connection, holdfast.worker.worker\n"
        "from holdfast.tracing import environment, spans\n"
        "environment.set_up()\n"
        "assert spans.current() is None\n"
        "print(*(name for name in sys.modules if name.startswith('opentelemetry.sdk')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split() == []
