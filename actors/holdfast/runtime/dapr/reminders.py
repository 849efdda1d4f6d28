"""Registers reminders that are retried until they succeed, unless their actor sets another policy.

daprd's own default gives up after four attempts, a second apart. A failure policy can only be set over gRPC: over HTTP
daprd 1.18.2 ignores it. The SDK (1.18.3) sends ``failurePolicy``, daprd expects ``failure_policy``, and that is a
protobuf "oneof", which daprd's JSON decoder leaves empty.
"""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from dapr.conf import settings
from dapr.conf.helpers import GrpcEndpoint
from dapr.proto import api_service_v1, api_v1, common_v1

from holdfast.errors import Unavailable
from holdfast.runtime.actor_api.durations import parse_period
from holdfast.runtime.dapr.error_mapping import rpc_refusal
from holdfast.runtime.dapr.in_flight import SidecarCall

if TYPE_CHECKING:
    from collections.abc import Container

# gRPC's own defaults wait up to two minutes before they reconnect to a restarted sidecar, and use a proxy if the
# environment names one.
_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
]


_UNTIL_IT_SUCCEEDS: dict[str, Any] = {"constant": {"interval": "1s"}}


class ReminderRpc:
    """The part of the sidecar's gRPC API that reminders need."""

    def __init__(
        self, endpoint: str | None = None, token: str | None = None, *, timeout: float, connect_retry_seconds: float
    ) -> None:
        self._endpoint = endpoint or _endpoint()
        token = token or settings.DAPR_API_TOKEN
        self._metadata = (("dapr-api-token", token),) if token else ()
        self._timeout = timeout
        self._connect_retry_seconds = connect_retry_seconds
        self._channel: grpc.aio.Channel | None = None

    async def register(
        self, actor_type: str, actor_id: str, name: str, reminder: dict[str, Any], hosted: Container[str]
    ) -> None:
        """Registers a reminder; ``reminder`` has the fields that the SDK sends over HTTP."""
        request = api_v1.RegisterActorReminderRequest(
            actor_type=actor_type,
            actor_id=actor_id,
            name=name,
            due_time=reminder.get("dueTime") or "",
            period=reminder.get("period") or "",
            ttl=reminder.get("ttl") or "",
            data=base64.b64decode(reminder.get("data") or ""),
            failure_policy=_policy(reminder.get("failurePolicy") or _UNTIL_IT_SUCCEEDS),
        )
        try:
            async with SidecarCall(self._timeout):
                stub = await self._connected()
                await stub.RegisterActorReminder(request, metadata=self._metadata, timeout=self._timeout)
        except grpc.aio.AioRpcError as error:
            raise rpc_refusal(error.code().name, error.details() or "", actor_type, hosted) from error
        except TimeoutError as error:
            raise Unavailable("The sidecar did not reply in time. Try again.") from error

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def _connected(self) -> api_service_v1.DaprStub:
        if self._channel is None:
            endpoint = GrpcEndpoint(self._endpoint)
            self._channel = (
                grpc.aio.secure_channel(endpoint.endpoint, grpc.ssl_channel_credentials(), options=_OPTIONS)
                if endpoint.tls
                else grpc.aio.insecure_channel(endpoint.endpoint, options=_OPTIONS)
            )
            self._stub = api_service_v1.DaprStub(self._channel)  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(self._connect_retry_seconds):
                await self._channel.channel_ready()
        except TimeoutError as error:
            raise Unavailable(f"The sidecar's gRPC API at {self._endpoint} cannot be reached. Try again.") from error
        return self._stub


def _policy(policy: dict[str, Any]) -> common_v1.JobFailurePolicy:
    if "drop" in policy:
        return common_v1.JobFailurePolicy(drop=common_v1.JobFailurePolicyDrop())
    constant = common_v1.JobFailurePolicyConstant()
    if interval := policy["constant"].get("interval"):
        constant.interval.FromTimedelta(timedelta(seconds=parse_period(interval).seconds))
    if (most := policy["constant"].get("maxRetries")) is not None:
        constant.max_retries = most
    return common_v1.JobFailurePolicy(constant=constant)


def _endpoint() -> str:
    return str(settings.DAPR_GRPC_ENDPOINT or f"{settings.DAPR_RUNTIME_HOST}:{settings.DAPR_GRPC_PORT}")
