"""The REST endpoints that show the deployed code: what can be started, and what the workers of this server run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pydantic.errors import PydanticUserError

from holdfast.gateway.auth.principal import Role
from holdfast.gateway.openapi import inspection as documents
from holdfast.gateway.routing import Endpoint
from holdfast.orchestration.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.orchestration.boxes import Boxes
    from holdfast.orchestration.core.payloads import Codec
    from holdfast.worker.worker import Worker

Answer = dict[str, Any]


class Inspection:
    """The handlers. The server sets the registry and its worker before it accepts calls."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.workers: list[Worker] = []
        self._definitions: asyncio.Future[Answer] | None = None

    def endpoints(self) -> Sequence[Endpoint]:
        return [
            Endpoint("GET", "/definitions", self.definitions, documents.DEFINITIONS, Role.READER),
            Endpoint("GET", "/workers", self.show_workers, documents.WORKERS, Role.READER),
        ]

    async def definitions(self, _: HttpRequest) -> Answer:
        if self._definitions is None:
            # Once and in a thread: schemas of many models take longer than a request may hold the event loop.
            self._definitions = asyncio.ensure_future(asyncio.to_thread(_described, self.registry))
        return await asyncio.shield(self._definitions)

    async def show_workers(self, call: HttpRequest) -> Answer:
        return {"workers": [worker.describe(call.caller.tenant) for worker in self.workers]}


def _described(registry: Registry) -> Answer:
    orchestrations = [
        {
            "name": one.name,
            "version": one.version,
            "latest": registry.orchestration(one.name) is one,
            "input": _schema(one.input),
            "mailboxes": _boxes(one.mailboxes),
            "requests": _boxes(one.requests),
            "timeout_seconds": one.timeout_seconds,
            "retention_seconds": one.retention_seconds,
        }
        for one in registry.orchestrations
    ]
    activities = [
        {"name": activity.name, "queue": activity.queue, "input": _schema(activity.input)}
        for activity in registry.activities
    ]
    return {"orchestrations": orchestrations, "activities": activities}


def _boxes(boxes: Boxes) -> dict[str, Answer | None]:
    return {name: _schema(boxes.codec(name)) for name in boxes}


def _schema(codec: Codec) -> Answer | None:
    """Returns the JSON schema of a declared type; None where it has none, as custom types may."""
    with suppress(PydanticUserError, NameError):
        return codec.json_schema()
    return None
