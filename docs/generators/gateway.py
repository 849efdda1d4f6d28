"""The gateway, built but not started: it has the routes and the metrics of a server."""

from __future__ import annotations

import asyncio
import functools
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.runtime.embedded import EmbeddedHost
from holdfast.server import Gateway, create_gateway

if TYPE_CHECKING:
    from fastapi import FastAPI


@functools.cache
def gateway() -> tuple[Gateway, FastAPI]:
    apps: list[FastAPI] = []

    def host(app: FastAPI) -> EmbeddedHost:
        apps.append(app)
        # The folder is made when the host is started, which it is not.
        return EmbeddedHost(Path(tempfile.gettempdir()) / "holdfast-reference", app_id="holdfast")

    made = create_gateway(host)
    return made, apps[0]


@functools.cache
def openapi() -> dict[str, Any]:
    """Returns what the server answers at ``/openapi.json``."""
    (route,) = (route for route in gateway()[1].routes if getattr(route, "path", "") == "/openapi.json")
    answer = asyncio.run(route.endpoint())  # type: ignore[attr-defined]
    document: dict[str, Any] = json.loads(answer.body)
    return document
