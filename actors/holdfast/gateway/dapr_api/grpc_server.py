"""Dapr's gRPC API on the embedded host, on a port of its own, for SDKs that speak gRPC only.

A call passes the same checks as an HTTP request: the token, the tenant's rate, the role, the audit log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote_to_bytes

import grpc
import grpc.aio
from dapr.proto import api_v1
from google.protobuf.message import DecodeError

from holdfast.errors import HoldfastError, RateLimited, SettingsError
from holdfast.gateway.auth.principal import CALLER
from holdfast.gateway.bulkhead import Bulkhead
from holdfast.gateway.dapr_api import grpc_errors, grpc_invocation
from holdfast.gateway.dapr_api.api_errors import ApiError, fault
from holdfast.gateway.dapr_api.dispatch import TAKEN, Dispatcher
from holdfast.gateway.dapr_api.grpc_answers import Answers, Reply
from holdfast.gateway.dapr_api.grpc_calls import GrpcCalls
from holdfast.gateway.dapr_api.grpc_errors import CallFailed
from holdfast.gateway.dapr_api.grpc_limits import check_message
from holdfast.gateway.dapr_api.operations import ActorOperations
from holdfast.gateway.http_request import BODY_BYTES
from holdfast.gateway.middleware.access import BY_GRPC, GRPC_API, INVOKED
from holdfast.gateway.middleware.body_limits import MAX_BODY
from holdfast.gateway.middleware.inner_calls import INNER_CALL
from holdfast.runtime.serialization import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message
    from starlette.types import Scope

    from holdfast.gateway.auth.principal import Caller
    from holdfast.gateway.dapr_api.dispatch import Response
    from holdfast.gateway.dapr_api.parts import SidecarParts
    from holdfast.gateway.tls import TlsFiles

log = logging.getLogger(__name__)

_INVOKE = f"{GRPC_API}InvokeService"
# A message holds a body and the names around it.
_MAX_MESSAGE = MAX_BODY + 64 * 1024
_MAX_METADATA = 32 * 1024
_MAX_CALLS = 4096
_MAX_STREAMS = 1000
#: How many calls of one tenant may receive their message at once. A message may have 16 MiB, and gRPC does not say how
#: many before it is there.
RECEIVING_AT_ONCE = 16
RECEIVING_WAITING = 1024
_LARGE = 64 * 1024
_IDENTITY_ONLY = 1

_OPTIONS = [
    # Otherwise a second server on the same port would get some of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", _MAX_METADATA),
    ("grpc.absolute_max_metadata_size", _MAX_METADATA),
    ("grpc.max_concurrent_streams", _MAX_STREAMS),
    # The size of a compressed message is known only after it was decompressed.
    ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
    # Detects callers that are gone.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
]


class GrpcServer:
    """Serves Dapr's gRPC API from :meth:`start` to :meth:`stop`.

    ``message_timeout`` is the time in seconds in which a message must arrive, and in which an answer must be read.
    """

    def __init__(
        self, parts: SidecarParts, address: str, port: int, *, message_timeout: float, tls: TlsFiles | None = None
    ) -> None:
        self._parts = parts
        self._address = address
        self._tls = tls
        self._timeout = message_timeout
        self._calls = GrpcCalls(ActorOperations(parts.host, parts.audit), parts.metadata, parts.audit)
        self._dispatcher = Dispatcher(parts.app)
        self._receiving = Bulkhead(RECEIVING_AT_ONCE, RECEIVING_WAITING)
        self._large = Bulkhead(BODY_BYTES)
        self._answers = Answers(message_timeout)
        self._server: grpc.aio.Server | None = None
        _check_free(address, port)
        #: The port that is listened on; with 0 it is known after the start.
        self.port = port

    async def start(self) -> None:
        """Begins to listen. Raises SettingsError when the port cannot be used."""
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_MAX_CALLS)
        server.add_generic_rpc_handlers((_Handler(self),))
        target = f"[{self._address}]:{self.port}" if ":" in self._address else f"{self._address}:{self.port}"
        try:
            if self._tls is None:
                self.port = server.add_insecure_port(target)
            else:
                self.port = server.add_secure_port(target, _credentials(self._tls))
        except RuntimeError as error:
            raise _cannot_listen(self._address, self.port, "it is in use") from error
        await server.start()
        self._server = server

    async def stop(self, grace: float) -> None:
        """Refuses new calls, waits for running ones for ``grace`` seconds, and closes the port."""
        if self._server is None:
            return
        server, self._server = self._server, None
        loop = asyncio.get_running_loop()
        until = loop.time() + grace
        await server.stop(grace)
        # Requests whose callers have gone.
        await self._dispatcher.finished(max(0.0, until - loop.time()))

    async def answer(self, path: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Handles one call: a call with one message and one answer looks the same as one with streams of one."""
        try:
            reply = await self._answer(path, context)
            await self._answers.send(reply, context)
        except CallFailed as error:
            await context.abort(error.code, error.details, error.trailing_metadata)
        except HoldfastError as error:
            refusal = grpc_errors.of_refusal(error.status, str(error))
            await context.abort(refusal.code, refusal.details)
        except Exception:
            # A bug: the caller gets an error without details, and the log has them.
            log.exception("%s failed", path)
            await context.abort(grpc.StatusCode.INTERNAL, fault().details)

    async def _answer(self, path: str, context: grpc.aio.ServicerContext[Any, Any]) -> Reply:
        name = path.removeprefix(GRPC_API)
        if path != _INVOKE and name not in self._calls.by_name:
            raise CallFailed("UNIMPLEMENTED", _not_served(path))
        scope = _scope(path, context)
        caller = self._identified(scope, invoked=path == _INVOKE)
        # Before anything is done, and not only before it is sent.
        self._answers.check(caller.tenant)
        async with AsyncExitStack() as taken:
            async with self._receiving.enter(caller.tenant):
                message = await self._received(context)
                if len(message) > _LARGE:
                    await self._make_room(taken, caller.tenant, len(message))
            answer, metadata = await self._carried_out(path, name, {**scope, TAKEN: taken}, message, context)
        return Reply(answer.SerializeToString(), metadata, caller.tenant)

    def _identified(self, scope: Scope, *, invoked: bool) -> Caller:
        """Checks the caller's token before the message is received."""
        asked = {**scope, INVOKED: True} if invoked else scope
        try:
            self._parts.identify(asked)
        except HoldfastError as error:
            self._parts.audit.refused(asked, error)
            raise grpc_errors.of_refusal(error.status, str(error)) from error
        caller: Caller = asked[CALLER]
        return caller

    async def _received(self, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        try:
            async with asyncio.timeout(self._timeout):
                message = await context.read()
        except TimeoutError as error:
            details = f"A message must arrive completely within {self._timeout:g} seconds."
            raise CallFailed("DEADLINE_EXCEEDED", details) from error
        if message is grpc.aio.EOF:
            raise CallFailed("INVALID_ARGUMENT", "The call has no message.")
        return bytes(message)

    async def _make_room(self, taken: AsyncExitStack, tenant: str, size: int) -> None:
        """Takes room for a large message until its call ends. Raises RateLimited when there is none in time."""
        try:
            async with asyncio.timeout(self._timeout):
                await taken.enter_async_context(self._large.enter(tenant, size))
        except TimeoutError as error:
            # An actor may wait for calls that are received after this one: without a time limit, none would go on.
            raise RateLimited(
                f"Running calls of this tenant over gRPC have messages of {BODY_BYTES // 1024 // 1024} MiB in memory. "
                "Try again later.",
                retry_after=1,
            ) from error

    async def _carried_out(
        self, path: str, name: str, scope: Scope, message: bytes, context: grpc.aio.ServicerContext[Any, Any]
    ) -> tuple[Message, Sequence[tuple[str, str]]]:
        check_message(name, message)
        if path == _INVOKE:
            return await self._invoke(scope, message, context)
        kind, carry_out = self._calls.by_name[name]
        request = _parsed(kind, message)
        outcome: list[Message | Exception] = []

        async def call(caller: Caller) -> int:
            status = 200
            try:
                outcome.append(await carry_out(request, caller))
            except ApiError as error:
                status = error.status
                outcome.append(grpc_errors.of_api_error(error))
            except Exception as error:
                # Raised again below, where the caller waits.
                status = 500
                outcome.append(error)
            self._calls.log_change(name, request, caller, status)
            return status

        await self._checked({**scope, "route": path, INNER_CALL: call}, outcome)
        [result] = outcome
        if isinstance(result, Exception):
            raise result
        return result, ()

    async def _checked(self, scope: Scope, outcome: list[Any]) -> None:
        """Runs an inner call after the gateway's checks. Raises CallFailed when they refuse it."""
        response = await self._dispatcher.send(scope)
        if not outcome:
            raise grpc_errors.of_refusal(response.status, _message(response))

    async def _invoke(
        self, scope: Scope, message: bytes, context: grpc.aio.ServicerContext[Any, Any]
    ) -> tuple[Message, Sequence[tuple[str, str]]]:
        request = _parsed(api_v1.InvokeServiceRequest, message)
        try:
            wanted = grpc_invocation.to_request(request, self._parts.host.app_id)
        except ApiError as error:
            # Only an operator learns which apps there are.
            await self._refuse(scope, error)
            raise grpc_errors.of_api_error(error) from error
        path = wanted["raw_path"].decode("ascii")
        headers = grpc_invocation.to_headers(scope["headers"], request.message)
        scope = {**scope, **wanted, "path": _unquoted(path), "headers": headers, INVOKED: True}
        response = await self._dispatcher.send(scope, request.message.data.value)
        if scope["method"] == "HEAD":
            # The application writes one; an HTTP server would leave it out.
            response = response._replace(body=b"")
        metadata = grpc_invocation.to_metadata(response)
        if (failure := grpc_errors.of_response(response.status, response.body)) is not None:
            await context.send_initial_metadata(tuple(metadata))
            raise failure
        return grpc_invocation.to_answer(response), metadata

    async def _refuse(self, scope: Scope, error: ApiError) -> None:
        outcome: list[None] = []

        async def call(caller: Caller) -> int:
            outcome.append(None)
            return error.status

        await self._checked({**scope, "route": _INVOKE, INNER_CALL: call}, outcome)


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, server: GrpcServer) -> None:
        self._server = server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        path: str = handler_call_details.method

        async def behaviour(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
            try:
                await self._server.answer(path, context)
            except grpc.aio.InternalError as error:
                # The caller is gone. gRPC (1.85) would write a stack trace into the log, as often as callers like.
                log.debug("%s: %s", path, error)
                raise asyncio.CancelledError from None

        # Messages are read and written by hand, as bytes: so the token is checked first, and everything has a deadline.
        return grpc.stream_stream_rpc_method_handler(behaviour)


def _check_free(address: str, port: int) -> None:
    # gRPC itself says only that it failed, and writes the reason to the terminal.
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise _cannot_listen(address, port, reason or str(error)) from error


def _cannot_listen(address: str, port: int, reason: str) -> SettingsError:
    return SettingsError(f"Cannot listen on {address} port {port} for gRPC: {reason}. Choose another with --grpc-port.")


def _credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    certificate = tls.certificate.read_bytes()
    key = certificate if tls.key is None else tls.key.read_bytes()
    return grpc.ssl_server_credentials([(key, certificate)])


def _not_served(path: str) -> str:
    return (
        f"{path} is not served: the embedded host serves the calls of actors, InvokeService of its own app id and "
        "GetMetadata. Run 'holdfast dev' or daprd for the others."
    )


def _scope(path: str, context: grpc.aio.ServicerContext[Any, Any]) -> Scope:
    """Returns the ASGI scope of a call: as of a POST to its path, with its metadata as headers."""
    headers = [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in context.invocation_metadata() or ()
        if isinstance(value, str)
    ]
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": b"",
        "headers": headers,
        "client": _client(context.peer()),
        BY_GRPC: True,
    }


def _client(peer: str) -> tuple[str, int] | None:
    """Returns address and port of a peer as gRPC names it: ``ipv4:127.0.0.1:5000``, ``ipv6:%5B::1%5D:5000``."""
    host, _, port = peer.partition(":")[2].rpartition(":")
    host = host.replace("%5B", "").replace("%5D", "").strip("[]")
    return (host, int(port)) if host and port.isdigit() else None


def _parsed(kind: type[Message], message: bytes) -> Any:
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise CallFailed("INVALID_ARGUMENT", f"The message is not a {kind.DESCRIPTOR.name}.") from error


def _message(response: Response) -> str:
    """Returns the sentence of a flat error."""
    return str(load(response.body)["message"])


def _unquoted(path: str) -> str:
    return unquote_to_bytes(path).decode("utf-8", "replace")
