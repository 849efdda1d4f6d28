"""``GET /metrics``: what Prometheus reads of this process and of the queues."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Info, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily

from holdfast import __version__
from holdfast.errors import Forbidden, MethodNotAllowed, Unauthorized
from holdfast.gateway.callers import CALLER
from holdfast.gateway.census import Census
from holdfast.gateway.health import refusals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from fastapi import FastAPI
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector, CollectorRegistry
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from holdfast.gateway.callers import Caller
    from holdfast.runtime.contract import Host

# What callers can make up as they like is one label.
OTHER = "other"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def install(app: FastAPI, host: Host) -> None:
    registry = host.client.meters.registry
    ProcessCollector(registry=registry)
    Info("holdfast_build", "What runs here.", registry=registry).info({"version": __version__, "host": host.name})
    census = Census(host.client)

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
        """What Prometheus reads: the caller's queues, and what this process does for all tenants."""
        caller: Caller = request.scope[CALLER]
        counted = await census.take(caller.tenant)
        # Whoever belongs to one tenant learns nothing of the work done for others.
        shown = _Together(counted) if caller.bound else _Together(registry, counted)
        # With many queues it takes long enough to hold the others up.
        text = await asyncio.to_thread(generate_latest, shown)
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


class _Together:
    def __init__(self, *collectors: Collector) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        for collector in self._collectors:
            for metric in collector.collect():
                # When each series began: in this format they would be as many series again.
                metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
                yield metric


class RequestsCounted:
    """Middleware around all others, so that it sees what those refuse.

    Who answers a request leaves its route in the scope: as Starlette does, or just the path of it.
    """

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        # Not the library's counters, which take a lock and a few microseconds on every request.
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
