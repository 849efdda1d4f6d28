"""``GET /metrics``: metrics of this process and of the queues, for Prometheus."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Info, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily

from holdfast import __version__
from holdfast.errors import Forbidden, MethodNotAllowed, Unauthorized
from holdfast.gateway.auth.principal import CALLER
from holdfast.gateway.health import refusals
from holdfast.gateway.metrics.instance_stats import InstanceStats
from holdfast.gateway.metrics.queue_stats import QueueStats
from holdfast.runtime.in_process.host import InProcessHost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from fastapi import FastAPI
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector, CollectorRegistry
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from holdfast.gateway.auth.principal import Caller
    from holdfast.runtime.contract import Host

# One label for routes and methods that callers can make up.
OTHER = "other"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def install(app: FastAPI, host: Host) -> None:
    registry = host.client.metrics.registry
    ProcessCollector(registry=registry)
    Info("holdfast_build", "Version and host of this process.", registry=registry).info(
        {"version": __version__, "host": host.name}
    )
    queue_stats = QueueStats(host.client, alone=isinstance(host, InProcessHost))
    instance_stats = InstanceStats(host.client)

    @app.get(
        "/metrics",
        tags=["health"],
        response_class=Response,
        responses={
            200: {
                "content": {"text/plain": {"schema": {"type": "string"}}},
                "description": "In Prometheus' text format.",
            },
            **refusals(MethodNotAllowed, Unauthorized, Forbidden),
        },
    )
    async def metrics(request: Request) -> Response:
        """Metrics for Prometheus: of the caller's queues and instances, and of this process for all tenants."""
        caller: Caller = request.scope[CALLER]
        counted = await asyncio.gather(queue_stats.take(caller.tenant), instance_stats.take(caller.tenant))
        # A caller bound to one tenant must learn nothing about the work for others.
        shown = Collectors(*counted) if caller.bound else Collectors(registry, *counted)
        # In a thread: with many queues this would hold the event loop.
        text = await asyncio.to_thread(generate_latest, shown)
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


class Collectors:
    """Several collectors as one."""

    def __init__(self, *collectors: Collector) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        for collector in self._collectors:
            for metric in collector.collect():
                # Without the _created samples, which would double the number of series in this format.
                metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
                yield metric


class RequestsCounted:
    """Counts requests. It is the outermost middleware, so that it also sees requests that others refuse.

    The handler of a request leaves its route in the scope: an object with a ``path``, as Starlette does, or the path.
    """

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        # A plain dict, not the library's counters, which take a lock and a few microseconds on every request.
        self._counts: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        registry.register(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        def counted(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                route: Any = scope.get("route", OTHER)
                method = scope["method"] if scope["method"] in _METHODS else OTHER
                self._counts[getattr(route, "path", route), method, message["status"]] += 1
            return send(message)

        await self._app(scope, receive, counted)

    def collect(self) -> Iterator[Metric]:
        metric = CounterMetricFamily(
            "holdfast_http_requests", "Requests answered.", labels=["route", "method", "status"]
        )
        for (route, method, status), count in self._counts.copy().items():
            metric.add_metric([route, method, str(status)], count)
        yield metric

    def describe(self) -> Iterator[Metric]:
        return self.collect()
