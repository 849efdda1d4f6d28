"""A server beside a real daprd, and another app that calls its actors through a daprd of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from holdfast.gateway.middleware.body_limits import MAX_ANSWER
from holdfast.local import ChildProcess, LocalDapr, find_dapr, write_component
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port
from holdfast.orchestration.actor.actor import OrchestrationActor
from holdfast.pushpop.actor import PushPopActor
from tests.behaviour.security.fuzz.server import APP, MARKERS, write_tokens
from tests.behaviour.security.guarded import DAPR
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.local import Sidecar
    from tests.behaviour.security.fuzz.requests import Request
    from tests.support.rest import Answer

_METHOD = re.compile(r"/v1\.0/actors/([^/]*)/([^/]*)/method/([^/?]*)")
_FAULT = re.compile(rb'errorCode\\*":\\*"(INTERNAL|STORAGE_BROKEN)')
_PUBLIC = {actor.__name__: actor for actor in (PushPopActor, OrchestrationActor)}


class FuzzedBesideDapr:
    """``holdfast serve --host dapr`` with the tokens of all callers. Actors are called by another app."""

    #: daprd serves gRPC itself.
    grpc_port = None

    def __init__(self, folder: Path) -> None:
        self.log = folder / "app.log"
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._tokens = write_tokens(folder)
        self._dapr = LocalDapr(folder / "dapr", find_dapr())
        self._app: ChildProcess | None = None
        self._neighbour: Sidecar | None = None

    @property
    def actors_url(self) -> str:
        assert self._neighbour is not None
        return self._neighbour.url

    @property
    def running(self) -> bool:
        return self._app is not None and self._app.running

    async def start(self) -> None:
        await self._dapr.start()
        resources = self._folder / "resources"
        write_component("sqlite", resources, connection=str(self._folder / "state.db"))
        sidecar = await self._dapr.sidecar(app_port=self._port, resources=resources, environment=DAPR)
        command = [
            *(Path(sys.executable).with_name("holdfast"), "serve", APP, "--port", str(self._port), "--host", "dapr"),
            *("--tokens", str(self._tokens), "--log-format", "json"),
        ]
        environment = {**sidecar.environment, **DAPR}
        self._app = ChildProcess("app", command, log=self.log, folder=ROOT, environment=environment)
        await self._app.start()
        await self._app.wait_ready(answers_ok(f"{self.url}/readyz"))
        self._neighbour = await self._dapr.sidecar(app_id="neighbour")
        await self._neighbour.wait_ready()

    async def stop(self) -> int | None:
        """Sends SIGTERM, and returns the exit code."""
        assert self._app is not None
        await self._app.terminate()
        return self._app.returncode

    async def kill(self) -> None:
        if self._app is not None:
            await self._app.kill()
        await self._dapr.kill()


def problems(request: Request, answer: Answer) -> Iterator[str]:
    """Yields a sentence for each fault of an answer to the other app, which sees public methods only."""
    if len(answer.text) > MAX_ANSWER:
        yield f"the answer has more than {MAX_ANSWER} bytes"
    for tenant, marker in MARKERS.items():
        if marker.encode() in answer.text:
            yield f"the answer has a payload of the tenant {tenant}"
    if found := _FAULT.search(answer.text):
        yield f"a fault of an actor: {found[1].decode()}"
    called = _METHOD.match(request.path)
    if answer.status < 300 and called is not None:
        kind, actor, method = (unquote(part) for part in called.groups())
        if kind not in _PUBLIC or not _PUBLIC[kind].is_public(actor, method):
            yield "another app may not call this"
