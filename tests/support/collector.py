"""A collector of OpenTelemetry's spans, over OTLP with HTTP, and the trees that they form."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Span:
    """A span as it was exported."""

    trace_id: str
    id: str
    parent: str
    name: str
    kind: int
    #: In nanoseconds.
    began: int
    ended: int
    failed: bool
    attributes: dict[str, Any] = field(hash=False)
    #: The trace and the span of each link.
    links: tuple[tuple[str, str], ...] = ()


class Collector:
    """Keeps the spans that processes export to its address."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        kept = self._spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = ExportTraceServiceRequest()
                request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
                kept.extend(_spans_of(request))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that exports to it, without delay and without compression."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_RESOURCE_ATTRIBUTES": "",
        }

    def trace(self, trace_id: str) -> list[Span]:
        """Returns the spans of a trace. Of one that was exported twice, as after a crash, the first."""
        return list({span.id: span for span in reversed(self._spans) if span.trace_id == trace_id}.values())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Tree:
    """The spans of one trace. ``root`` is the id of their common parent, which may be the caller's."""

    spans: list[Span]
    root: str

    @property
    def orphans(self) -> list[Span]:
        """The spans whose parent is missing."""
        known = {self.root, *(span.id for span in self.spans)}
        return [span for span in self.spans if span.parent not in known]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def below(self, parent: str) -> list[Span]:
        return [span for span in self.spans if span.parent == parent]

    def lines(self) -> list[str]:
        """Returns the names of the spans, each indented below its parent, sorted among its siblings."""

        def shown(parent: str, depth: int) -> list[str]:
            ordered = sorted(self.below(parent), key=lambda span: (span.name, span.began))
            return [line for span in ordered for line in ("  " * depth + span.name, *shown(span.id, depth + 1))]

        return shown(self.root, 0)


def _spans_of(request: Any) -> list[Span]:
    return [
        Span(
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            span.kind,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.status.code == span.status.STATUS_CODE_ERROR,
            {pair.key: _value(pair.value) for pair in span.attributes},
            tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
