"""The calls of Dapr's gRPC API that the embedded host serves, as functions of their protobuf messages."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from dapr.proto import api_v1
from google.protobuf import empty_pb2, wrappers_pb2

from holdfast.gateway.dapr_api.api_errors import bad_request
from holdfast.gateway.dapr_api.grpc_errors import with_info
from holdfast.gateway.dapr_api.metadata import MAX_KEY
from holdfast.gateway.dapr_api.operations import check_actor
from holdfast.gateway.middleware.access import GRPC_API
from holdfast.runtime.actor_api.durations import go_duration
from holdfast.runtime.arguments import without_nothing
from holdfast.runtime.in_process.transactions import MAX_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from google.protobuf.message import Message

    from holdfast.gateway.auth.audit_log import AuditLog
    from holdfast.gateway.auth.principal import Caller
    from holdfast.gateway.dapr_api.metadata import SidecarMetadata
    from holdfast.gateway.dapr_api.operations import ActorOperations

# The word for this protocol in the audit log.
_VERB = "GRPC"


class GrpcCalls:
    """Carries out calls: each public method has the name of a call. They may raise ApiError and CallFailed."""

    def __init__(self, actors: ActorOperations, metadata: SidecarMetadata, audit: AuditLog) -> None:
        self._actors = actors
        self._metadata = metadata
        self._audit = audit
        self.by_name: dict[str, tuple[type[Message], Callable[[Any, Caller], Awaitable[Message]]]] = {
            call.__name__: (getattr(api_v1, f"{call.__name__}Request"), call)
            for call in (
                self.InvokeActor,
                self.GetActorState,
                self.ExecuteActorStateTransaction,
                self.RegisterActorReminder,
                self.UnregisterActorReminder,
                self.GetActorReminder,
                self.RegisterActorTimer,
                self.UnregisterActorTimer,
                self.GetMetadata,
                self.SetMetadata,
            )
        }

    async def InvokeActor(self, request: Any, caller: Caller) -> Message:
        target = (request.actor_type, request.actor_id, request.method)
        answer = await self._actors.invoke(caller, _VERB, f"{GRPC_API}InvokeActor", target, request.data)
        return api_v1.InvokeActorResponse(data=without_nothing(answer, plain=not request.data))

    async def GetActorState(self, request: Any, caller: Caller) -> Message:
        check_actor(request.actor_type, request.actor_id)
        value = await self._actors.get_state(request.actor_type, request.actor_id, request.key)
        return api_v1.GetActorStateResponse(data=value)

    async def ExecuteActorStateTransaction(self, request: Any, caller: Caller) -> Message:
        check_actor(request.actor_type, request.actor_id)
        # Calls above the limit are refused before they are read.
        operations = [_operation(operation) for operation in request.operations[: MAX_OPERATIONS + 1]]
        await self._actors.transact(request.actor_type, request.actor_id, operations)
        return empty_pb2.Empty()

    async def RegisterActorReminder(self, request: Any, caller: Caller) -> Message:
        if not request.name:
            raise bad_request("reminder name cannot be empty")
        check_actor(request.actor_type, request.actor_id)
        body = _times(request)
        if request.HasField("overwrite"):
            body["overwrite"] = request.overwrite
        if request.HasField("failure_policy"):
            body["failurePolicy"] = _policy(request.failure_policy)
        await self._actors.register_reminder(request.actor_type, request.actor_id, request.name, body)
        return empty_pb2.Empty()

    async def UnregisterActorReminder(self, request: Any, caller: Caller) -> Message:
        check_actor(request.actor_type, request.actor_id)
        await self._actors.unregister_reminder(request.actor_type, request.actor_id, request.name)
        return empty_pb2.Empty()

    async def GetActorReminder(self, request: Any, caller: Caller) -> Message:
        check_actor(request.actor_type, request.actor_id)
        found = await self._actors.get_reminder(request.actor_type, request.actor_id, request.name)
        answer = api_v1.GetActorReminderResponse(
            actor_type=found.address.type,
            actor_id=found.address.id,
            due_time=found.due_time or None,
            period=found.period or None,
        )
        if found.data:
            answer.data.Pack(wrappers_pb2.BytesValue(value=found.data.encode()))
        return answer

    async def RegisterActorTimer(self, request: Any, caller: Caller) -> Message:
        check_actor(request.actor_type, request.actor_id)
        body = _times(request) | {"callback": request.callback}
        self._actors.register_timer(request.actor_type, request.actor_id, request.name, body)
        return empty_pb2.Empty()

    async def UnregisterActorTimer(self, request: Any, caller: Caller) -> Message:
        check_actor(request.actor_type, request.actor_id)
        self._actors.unregister_timer(request.actor_type, request.actor_id, request.name)
        return empty_pb2.Empty()

    async def GetMetadata(self, request: Any, caller: Caller) -> Message:
        seen = await self._metadata.read()
        actors = [api_v1.ActiveActorsCount(**actor) for actor in seen["actors"]]
        runtime, app = seen["actorRuntime"], seen["appConnectionProperties"]
        return api_v1.GetMetadataResponse(
            id=seen["id"],
            active_actors_count=actors,
            registered_components=[api_v1.RegisteredComponents(**component) for component in seen["components"]],
            extended_metadata=seen["extended"],
            app_connection_properties=api_v1.AppConnectionProperties(
                port=app["port"], protocol=app["protocol"], channel_address=app["channelAddress"]
            ),
            runtime_version=seen["runtimeVersion"],
            enabled_features=seen["enabledFeatures"],
            actor_runtime=api_v1.ActorRuntime(
                runtime_status=runtime["runtimeStatus"],
                active_actors=actors,
                host_ready=runtime["hostReady"],
                placement=runtime["placement"],
            ),
            scheduler=api_v1.MetadataScheduler(connected_addresses=seen["scheduler"]["connected_addresses"]),
        )

    async def SetMetadata(self, request: Any, caller: Caller) -> Message:
        self._metadata.put(request.key, request.value)
        return empty_pb2.Empty()

    def log_change(self, name: str, request: Any, caller: Caller, status: int) -> None:
        """Writes a change of state, reminders, timers or metadata to the audit log."""
        if name == "SetMetadata":
            names = {"key": request.key[:MAX_KEY]}
        elif name.startswith(("Execute", "Register", "Unregister")):
            names = {"type": request.actor_type, "id": request.actor_id}
        else:
            return
        self._audit.acted(caller, _VERB, f"{GRPC_API}{name}", names, status)


def _operation(operation: Any) -> dict[str, Any]:
    """Returns an operation of a state transaction in the form of the HTTP body; its value stays bytes."""
    kind = operation.operationType
    if kind not in ("upsert", "delete"):
        details = f"operation type {kind} not supported"
        raise with_info("UNIMPLEMENTED", details, "ERR_NOT_SUPPORTED_STATE_OPERATION", {})
    request: dict[str, Any] = {"key": operation.key}
    if kind == "upsert":
        request |= {"value": operation.value.value, "metadata": dict(operation.metadata)}
    return {"operation": kind, "request": request}


def _times(request: Any) -> dict[str, Any]:
    """Returns the fields that reminders and timers share, in the form of the HTTP body."""
    body: dict[str, Any] = {"dueTime": request.due_time, "period": request.period, "ttl": request.ttl}
    if request.data:
        # As daprd passes bytes on to the actor.
        body["data"] = base64.b64encode(request.data).decode("ascii")
    return body


def _policy(policy: Any) -> dict[str, Any]:
    match policy.WhichOneof("policy"):
        case "drop":
            return {"drop": {}}
        case "constant":
            constant: dict[str, Any] = {}
            if policy.constant.HasField("interval"):
                constant["interval"] = go_duration(policy.constant.interval.ToTimedelta())
            if policy.constant.HasField("max_retries"):
                constant["maxRetries"] = policy.constant.max_retries
            return {"constant": constant}
        case _:
            return {}
