"""Servers that ask for tokens, with something in them to steal or break."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import aiohttp
from yarl import URL

from holdfast.local import ChildProcess, LocalDapr, find_dapr, write_component
from holdfast.local.health import answers_ok
from holdfast.local.ports import free_port
from tests.support.rest import Answer
from tests.support.stacks.served import rows
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Mapping

    from holdfast.local import Sidecar

Outcome = TypeVar("Outcome")

QUEUE = "victim"
#: The queue for permitted calls; changes of it are not checked.
SPARE = "spare"
#: Only operators, users and readers of the default tenant may see this.
PAYLOAD = "the payload that is to be kept"
BODY_TIMEOUT = 2
TOLD_SECONDS = 30.0

TOKENS = {name: f"{name}-0123456789abcdef" for name in ("reader", "user", "operator", "acme-user", "acme-operator")}
#: daprd's own, each way.
DAPR = {"DAPR_API_TOKEN": "the way in 0123456789", "APP_API_TOKEN": "the way back 0123456789"}

# Lists that are kept up to date after the answer.
_LISTS = ("IndexActor||", "NotifierActor||", "RecordUsageActor||", "RescuerActor||")


def entry(name: str, **changes: str) -> dict[str, str]:
    """A table of the file."""
    tenant, _, role = name.rpartition("-")
    return {"name": name, "role": role, "tenant": tenant or "*", "token": TOKENS[name], **changes}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[name]}"}


class Guarded(ABC):
    host: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.file = folder / "tokens.toml"
        self._app: ChildProcess | None = None
        self._session: aiohttp.ClientSession | None = None
        self._audit: list[dict[str, Any]] = []
        self._read_to = 0

    @property
    @abstractmethod
    def _database(self) -> Path: ...

    @property
    def app(self) -> ChildProcess:
        assert self._app is not None
        return self._app

    async def __aenter__(self) -> Self:
        self.write(*map(entry, TOKENS))
        self._session = aiohttp.ClientSession()
        await self._start()
        (await self.ask("POST", f"/queue/{QUEUE}/push", {"item": PAYLOAD}, token="user")).ok()
        await eventually(self._is_at_rest)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._session is not None
        await self._session.close()
        await self._stop()

    @abstractmethod
    async def _start(self) -> None: ...

    @abstractmethod
    async def _stop(self) -> None: ...

    async def _serve(self, *options: str, environment: Mapping[str, str] | None = None) -> None:
        command = [
            *(Path(sys.executable).with_name("holdfast"), "serve", "--port", str(self.port), "--host", self.host),
            *("--tokens", str(self.file), "--body-timeout", str(BODY_TIMEOUT), "--log-format", "json", *options),
        ]
        self._app = ChildProcess(
            "app", command, log=self.folder / "app.log", folder=self.folder, environment=environment or {}
        )
        await self.start_again()

    async def start_again(self) -> None:
        """Starts the app, for the first time or after it was stopped."""
        await self.app.start()
        await self.app.wait_ready(answers_ok(f"http://127.0.0.1:{self.port}/readyz"))

    def write(self, *entries: Mapping[str, str]) -> None:
        """Puts these into the file's place, as careful people do."""
        lines = (["[[token]]", *(f"{key} = {json.dumps(value)}" for key, value in one.items())] for one in entries)
        self.write_text("\n".join(line for table in lines for line in table))

    def write_text(self, text: str) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o600)
        os.replace(new, self.file)

    async def ask(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The path is sent as it is; a body that is neither bytes nor a stream of them is sent as JSON."""
        assert self._session is not None
        data: bytes | AsyncIterable[bytes] | None = body
        if not (body is None or isinstance(body, bytes) or hasattr(body, "__aiter__")):
            data = json.dumps(body).encode()
        sent = {**(bearer(token) if token else {}), **(headers or {})}
        url = URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        async with self._session.request(verb, url, data=data, headers=sent) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def send_raw(self, *pieces: bytes) -> list[int]:
        """The statuses of all that is answered until the server closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            try:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                answers = await reader.read(-1)
            except ConnectionError:
                # It closed before it had read everything.
                answers = b""
        finally:
            writer.close()
        return _statuses(answers)

    def stored(self, *, spare: bool = False) -> dict[str, str]:
        """All that lies in the store, but for what may change."""
        left_out = _LISTS if spare else (*_LISTS, SPARE)
        return {key: value for key, value in rows(self._database).items() if not any(one in key for one in left_out)}

    async def _is_at_rest(self) -> bool:
        # A queue is put on the list of queues after its first push was answered.
        return any('"_indexed":true' in value for value in self.stored().values())

    def audit(self) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        # From where it was read last: there are many of them.
        with self.app.log.open("rb") as log:
            log.seek(self._read_to)
            whole = log.read().rpartition(b"\n")[0]
        if whole:
            self._read_to += len(whole) + 1
            lines = (json.loads(line) for line in whole.splitlines() if line.startswith(b"{"))
            self._audit += [line for line in lines if line["logger"] == "holdfast.audit"]
        return self._audit

    async def told(
        self, attack: Callable[[], Awaitable[Outcome]], *, status: int, **fields: str
    ) -> tuple[Outcome, dict[str, Any]]:
        """Returns the outcome of an attack, and its line in the audit log with these fields.

        Repeats the attack until then: the log's lines per second are limited, and other attacks use them too.
        """
        wanted = {"status": status, **fields}
        until = asyncio.get_running_loop().time() + TOLD_SECONDS
        others: list[dict[str, Any]] = []
        while asyncio.get_running_loop().time() < until:
            told = len(self.audit())
            outcome = await attack()
            for line in self.audit()[told:]:
                if wanted.items() <= line.items():
                    return outcome, line
                others.append(line)
        raise AssertionError(f"no line with {wanted}, but {others[-5:]}")


class OnEmbedded(Guarded):
    host = "embedded"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.grpc_port = free_port()

    @property
    def _database(self) -> Path:
        return self.folder / "data" / "holdfast.db"

    async def _start(self) -> None:
        await self._serve("--data", str(self.folder / "data"), "--grpc-port", str(self.grpc_port))

    async def _stop(self) -> None:
        await self.app.terminate()


class OnDapr(Guarded):
    """Beside a real daprd, with a token each way."""

    host = "dapr"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._dapr = LocalDapr(folder / "dapr", find_dapr())
        self.sidecar: Sidecar | None = None
        #: The daprd of another app in the same placement, which has no token of Holdfast's.
        self.neighbour: Sidecar | None = None

    @property
    def _database(self) -> Path:
        return self.folder / "state.db"

    async def _start(self) -> None:
        await self._dapr.start()
        resources = self.folder / "resources"
        write_component("sqlite", resources, connection=str(self._database))
        self.sidecar = await self._dapr.sidecar(app_port=self.port, resources=resources, environment=DAPR)
        await self._serve(environment={**self.sidecar.environment, **DAPR})
        self.neighbour = await self._dapr.sidecar(app_id="neighbour")
        await self.neighbour.wait_ready()

    async def _stop(self) -> None:
        await self.app.terminate()
        await self._dapr.kill()


def _statuses(answers: bytes) -> list[int]:
    statuses = []
    while answers:
        head, _, rest = answers.partition(b"\r\n\r\n")
        statuses.append(int(head.split(b" ")[1]))
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        answers = rest[int(length.partition(b":")[2]) :]
    return statuses
