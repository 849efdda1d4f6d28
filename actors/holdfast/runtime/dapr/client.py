"""The host client of actors behind daprd."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.errors import ActorMoved, InvalidRequest, SaveUnanswered, Unavailable
from holdfast.names import check_address
from holdfast.runtime.contract import ActorAddress, HostClient, StateChange
from holdfast.runtime.dapr.admission import PROOF_HEADER, Proofs
from holdfast.runtime.dapr.app_id_conflicts import SIGNATURE_HEADER, AppIdConflicts
from holdfast.runtime.dapr.call_dedup import CALL_ID_HEADER
from holdfast.runtime.dapr.error_mapping import to_error
from holdfast.runtime.dapr.http import Answer, SidecarHttp
from holdfast.runtime.dapr.in_flight import revoked
from holdfast.runtime.dapr.reminders import ReminderRpc
from holdfast.runtime.dapr.timers import mark
from holdfast.runtime.exact_numbers import original, protected_transaction
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MOST_AT_ONCE = 32
# No other process can choose the id of a call of this process.
_SECRET = secrets.token_hex(16)
_numbers = itertools.count()


class DaprHostClient(HostClient):
    """Makes all requests of actors to daprd, over one pool of connections.

    Endpoints and token come from the environment as for the SDK: ``DAPR_HTTP_ENDPOINT`` or ``DAPR_HTTP_PORT``,
    ``DAPR_GRPC_ENDPOINT`` or ``DAPR_GRPC_PORT``, ``DAPR_API_TOKEN``.
    """

    keeps_numbers = False

    def __init__(
        self,
        http_endpoint: str | None = None,
        grpc_endpoint: str | None = None,
        api_token: str | None = None,
        *,
        actor_secret: str | None = None,
        timeout: float | None = None,
        connect_timeout: float = 5.0,
        connect_retry_seconds: float = 3.0,
    ) -> None:
        self.http = SidecarHttp(
            http_endpoint,
            api_token,
            timeout=timeout,
            connect_timeout=connect_timeout,
            connect_retry_seconds=connect_retry_seconds,
        )
        self._reminders = ReminderRpc(
            grpc_endpoint, api_token, timeout=self.http.timeout, connect_retry_seconds=connect_retry_seconds
        )
        #: The actor types of this app: if one has no host, it is unavailable, not unknown.
        self.hosted: set[str] = set()
        self.neighbours = AppIdConflicts()
        self.proofs = Proofs(actor_secret)
        #: Returns the activation id of an actor in this app; its timers end with it.
        self.activation_id_of: Callable[[ActorAddress], str] | None = None
        #: Returns whether this app owns its actors at this moment.
        self.is_held: Callable[[], bool] | None = None

    def now(self) -> float:
        return time.time()

    def holds(self) -> bool:
        return not revoked() and (self.is_held is None or self.is_held())

    async def close(self) -> None:
        await self._reminders.close()
        await self.http.close()

    async def invoke_method(self, actor_type: str, actor_id: str, method: str, data: bytes | None = None) -> bytes:
        path = f"{_path(actor_type, actor_id)}/method/{_segment(method, 'method')}"
        call_id = f"{_SECRET}-{next(_numbers)}"
        headers = {CALL_ID_HEADER: call_id}
        is_ours = actor_type in self.hosted
        if is_ours:
            headers[PROOF_HEADER] = self.proofs.make(actor_type, actor_id, method, call_id, data or b"")
        answer = await self._ask(actor_type, "POST", path, data or b"", headers=headers)
        if is_ours:
            self.neighbours.answered(actor_type, answer.headers.get(SIGNATURE_HEADER))
            if not answer.body:
                # Our apps always send a body; daprd (1.18.2) passes on the headers of a reply whose app then died.
                raise Unavailable("The reply was interrupted. Try again.")
        return answer.body

    async def load_state(self, actor_type: str, actor_id: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        if len(keys) == 1:
            values = [await self._read(actor_type, actor_id, keys[0])]
        else:
            values = await self._get_together(actor_type, actor_id, keys)
        return {key: value for key, value in zip(keys, values, strict=True) if value}

    async def save_state(self, actor_type: str, actor_id: str, changes: Sequence[StateChange]) -> None:
        await self._write(actor_type, actor_id, _transaction(changes))

    async def get_state(self, actor_type: str, actor_id: str, name: str) -> bytes:
        return original(await self._read(actor_type, actor_id, name))

    async def save_state_transactionally(self, actor_type: str, actor_id: str, data: bytes) -> None:
        await self._write(actor_type, actor_id, protected_transaction(data))

    async def _read(self, actor_type: str, actor_id: str, name: str) -> bytes:
        path = f"{_path(actor_type, actor_id)}/state/{_segment(name, 'key')}"
        return (await self._ask(actor_type, "GET", path, repeatable=True)).body

    async def _write(self, actor_type: str, actor_id: str, data: bytes) -> None:
        # POST and not PUT, which daprd also accepts: aiohttp repeats a PUT by itself when a connection breaks.
        try:
            answer = await self.http.ask("POST", f"{_path(actor_type, actor_id)}/state", data)
        except ActorMoved:
            raise
        except Unavailable as error:
            raise SaveUnanswered from error
        if not answer.ok:
            raise to_error(answer.status, answer.body, actor_type, self.hosted)

    async def register_reminder(self, actor_type: str, actor_id: str, name: str, data: bytes) -> None:
        _path(actor_type, actor_id), _segment(name, "reminder")
        await self._reminders.register(actor_type, actor_id, name, load(data), self.hosted)

    async def unregister_reminder(self, actor_type: str, actor_id: str, name: str) -> None:
        path = f"{_path(actor_type, actor_id)}/reminders/{_segment(name, 'reminder')}"
        await self._ask(actor_type, "DELETE", path, repeatable=True)

    async def register_timer(self, actor_type: str, actor_id: str, name: str, data: bytes) -> None:
        path = f"{_path(actor_type, actor_id)}/timers/{_segment(name, 'timer')}"
        if self.activation_id_of is not None:
            data = mark(data, self.activation_id_of(ActorAddress(actor_type, actor_id)))
        await self._ask(actor_type, "POST", path, data)

    async def unregister_timer(self, actor_type: str, actor_id: str, name: str) -> None:
        path = f"{_path(actor_type, actor_id)}/timers/{_segment(name, 'timer')}"
        await self._ask(actor_type, "DELETE", path, repeatable=True)

    async def _ask(
        self,
        actor_type: str,
        verb: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> Answer:
        answer = await self.http.ask(verb, path, body, headers=headers, repeatable=repeatable)
        if not answer.ok:
            raise to_error(answer.status, answer.body, actor_type, self.hosted)
        return answer

    async def _get_together(self, actor_type: str, actor_id: str, keys: Sequence[str]) -> list[bytes]:
        # daprd cannot read several keys of an actor in one request.
        room = asyncio.Semaphore(_MOST_AT_ONCE)

        async def get(key: str) -> bytes:
            async with room:
                return await self._read(actor_type, actor_id, key)

        try:
            async with asyncio.TaskGroup() as together:
                reads = [together.create_task(get(key)) for key in keys]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return [read.result() for read in reads]


def _transaction(changes: Sequence[StateChange]) -> bytes:
    # Composed of the values' JSON, so that a value of a megabyte is not parsed and written again.
    return b"[" + b",".join(_operation(change) for change in changes) + b"]"


def _operation(change: StateChange) -> bytes:
    if change.value is None:
        return b'{"operation":"delete","request":{"key":%b}}' % dump(change.key)
    return b'{"operation":"upsert","request":{"key":%b,"value":%b}}' % (dump(change.key), change.value)


@lru_cache(maxsize=4096)
def _path(actor_type: str, actor_id: str) -> str:
    return f"/actors/{_segment(actor_type, 'actor type')}/{quote(check_address(actor_type, actor_id), safe=':@')}"


def _segment(name: str, what: str) -> str:
    # daprd rejects some of these itself, and puts the others unencoded into the app's path and into keys: '%41' would
    # reach the app as 'A', and '||' would end a part of the key.
    if not name or not name.isascii() or not name.isprintable() or name in (".", "..") or "||" in name:
        raise InvalidRequest(f"This is not a name for a {what}: {name!r}.")
    if any(character in "#?/\\%" for character in name):
        raise InvalidRequest(f"A name for a {what} must not contain any of '#?/\\%': {name!r}.")
    return quote(name, safe=":@")
