"""The operations of Dapr's actor API on the embedded host, for its HTTP and its gRPC form.

Errors are those of daprd 1.18; the tests compare them side by side. Ids are checked more strictly: daprd accepts any id
into the keys of its store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidRequest, ReminderExists, TooLarge
from holdfast.gateway.dapr_api.api_errors import (
    bad_request,
    failed,
    invocation_failed,
    malformed,
    no_host,
    not_active,
    not_hosted,
    reminder_exists,
    reminder_not_found,
)
from holdfast.gateway.dapr_api.names import problem_of_method, problem_of_name
from holdfast.gateway.middleware.body_limits import MAX_BODY, MAX_CALL, MAX_TEXT_CALL, too_large
from holdfast.gateway.queues.large_pushes import read_push
from holdfast.kinds import CLIENT_TYPES, ORCHESTRATION_TYPE, OWN_TYPES, QUEUE_TYPE, SCHEDULE_TYPE
from holdfast.names import check_address
from holdfast.pushpop.api.replies import refused
from holdfast.runtime.actor_api.errors import error_body
from holdfast.runtime.actor_api.shapes import Malformed
from holdfast.runtime.arguments import argument_of
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.in_process.host import SEPARATOR
from holdfast.runtime.in_process.transactions import check_shape, parse_transaction
from holdfast.runtime.serialization import (
    check_depth,
    check_number_of_containers,
    check_number_of_containers_in_pieces,
    dump,
    load,
)

if TYPE_CHECKING:
    from holdfast.gateway.auth.audit_log import AuditLog
    from holdfast.gateway.auth.principal import Caller
    from holdfast.runtime.in_process.host import InProcessHost
    from holdfast.runtime.in_process.storage import Reminder

#: Methods that need an operator over REST and are written to the audit log there. The others are called once per
#: message or more.
OPERATIONS = {
    QUEUE_TYPE: frozenset(
        {
            *("Requeue", "ExtendByPrefix", "Redrive", "DeleteDeadLetters", "Purge", "Delete", "Close"),
            *("SetConfig", "Configure"),
        }
    ),
    ORCHESTRATION_TYPE: frozenset({"Suspend", "Resume", "Delete"}),
    SCHEDULE_TYPE: frozenset({"Put", "Declare", "Undeclare", "Pause", "Resume", "Trigger", "Backfill", "Delete"}),
}

_TIME_FIELDS = (("dueTime", str), ("period", str), ("ttl", str), ("callback", str), ("overwrite", bool))


class ActorOperations:
    """Calls actors, and reads and changes their state, reminders and timers. Every method may raise ApiError."""

    def __init__(self, host: InProcessHost, audit: AuditLog) -> None:
        self._host = host
        self._audit = audit

    async def invoke(self, caller: Caller, verb: str, route: str, target: tuple[str, str, str], body: bytes) -> bytes:
        """Calls a method and returns its result as JSON. ``target`` is the actor's type, its id, and the method."""
        kind, actor, method = target
        for what, value in (("actorType", kind), ("actorId", actor)):
            if problem := problem_of_name(value):
                raise bad_request(f"invalid {what}: {problem}", f"invalid {what}: {problem}")
        if problem := problem_of_method(method):
            raise bad_request(problem, f"invalid actor method: {problem}")
        if kind not in self._host.actor_types or not actor:
            raise no_host(kind, actor)
        try:
            body = await _checked(kind, method, body)
        except (InvalidRequest, TooLarge) as error:
            if kind in CLIENT_TYPES:
                # As the actor itself refuses a call: an answer, so that an actor proxy does not raise.
                return dump(refused(error))
            raise bad_request(str(error)) from error
        status = 500
        try:
            answer = await self._host.call(ActorAddress(kind, actor), method, body)
            status = 200
        except Exception as error:
            # Any exception of an actor becomes an answer; details that are not for callers go to the log only.
            shown = dump(error_body(error, f"{kind}.{method}")).decode()
            raise invocation_failed(f"error from actor service: (500) {shown}") from error
        finally:
            for operation in _operations(kind, method, body):
                names = {"type": kind, "id": actor, "method": operation}
                self._audit.acted(caller, verb, route, names, status)
        return answer

    async def transact(self, kind: str, actor: str, operations: Any) -> None:
        """Executes the operations of a state transaction, all or none. The actor must be active."""
        try:
            checked = check_shape(operations)
        except Malformed as error:
            raise malformed(error) from error
        address = ActorAddress(kind, actor)
        if kind not in self._host.actor_types or not self._host.is_active(address):
            raise not_active()
        try:
            await self._host.save(address, parse_transaction(checked))
        except (ValueError, HoldfastError) as error:
            raise failed("ERR_ACTOR_STATE_TRANSACTION_SAVE", "saving actor transaction state", error) from error

    async def get_state(self, kind: str, actor: str, key: str) -> bytes:
        """Returns the value of a state key; empty without one."""
        try:
            return (await self._host.load(ActorAddress(kind, actor), [key])).get(key, b"")
        except HoldfastError as error:
            raise failed("ERR_ACTOR_STATE_GET", "getting actor state", error) from error

    async def register_reminder(self, kind: str, actor: str, name: str, request: dict[str, Any]) -> None:
        """Registers a reminder. ``request`` has the fields of the HTTP body."""
        address = self._with_reminders(kind, actor, name)
        try:
            await self._host.reminders.register(address, name, request)
        except ReminderExists as error:
            raise reminder_exists(name) from error
        except Malformed as error:
            raise malformed(error) from error
        except (ValueError, HoldfastError) as error:
            raise failed("ERR_ACTOR_REMINDER_CREATE", "creating actor reminder", error) from error

    async def unregister_reminder(self, kind: str, actor: str, name: str) -> None:
        address = self._with_reminders(kind, actor, name)
        try:
            await self._host.reminders.unregister(address, name)
        except HoldfastError as error:
            raise failed("ERR_ACTOR_REMINDER_DELETE", "deleting actor reminder", error) from error

    async def get_reminder(self, kind: str, actor: str, name: str) -> Reminder:
        address = self._with_reminders(kind, actor, name)
        try:
            found = await self._host.reminders.get(address, name)
        except HoldfastError as error:
            raise failed("ERR_ACTOR_REMINDER_GET", "getting actor reminder", error) from error
        if found is None:
            raise reminder_not_found(name)
        return found

    def register_timer(self, kind: str, actor: str, name: str, request: dict[str, Any]) -> None:
        """Registers a timer. ``request`` has the fields of the HTTP body."""
        check_name(name)
        try:
            if kind not in self._host.actor_types:
                raise ValueError(f"can't create timer for actor {kind}{SEPARATOR}{actor}: actor type not registered")
            self._host.timers.register(ActorAddress(kind, actor), name, request)
        except ValueError as error:
            raise failed("ERR_ACTOR_TIMER_CREATE", "creating actor timer", error) from error

    def unregister_timer(self, kind: str, actor: str, name: str) -> None:
        check_name(name)
        self._host.timers.unregister(ActorAddress(kind, actor), name)

    def _with_reminders(self, kind: str, actor: str, name: str) -> ActorAddress:
        check_name(name)
        if kind not in self._host.actor_types:
            raise not_hosted()
        return ActorAddress(kind, actor)


def check_actor(kind: str, actor: str) -> None:
    """Raises ApiError for an id that must not become a part of a state key."""
    try:
        check_address(kind, actor)
    except InvalidRequest as error:
        raise bad_request(f"invalid actorId: {problem_of_name(actor) or error}") from error


def check_name(name: str) -> None:
    """Raises ApiError for an invalid name of a reminder or a timer."""
    if problem := problem_of_name(name):
        raise bad_request(problem)


def decode(body: bytes) -> Any:
    """Parses a JSON body."""
    try:
        check_number_of_containers(body)
        return load(body)
    except (ValueError, TooLarge) as error:
        raise malformed(error) from error


def decode_times(body: bytes) -> dict[str, Any]:
    """Parses the JSON body of a reminder or a timer."""
    request = decode(body)
    if not isinstance(request, dict):
        raise malformed("the body must be an object")
    for name, kind in _TIME_FIELDS:
        if not isinstance(request.get(name), kind | None):
            raise malformed(f"{name} has the wrong type")
    return request


async def _checked(kind: str, method: str, body: bytes) -> bytes:
    """Returns the body to call the actor with. Raises InvalidRequest or TooLarge."""
    if len(body) > MAX_CALL and (kind, method) == (QUEUE_TYPE, "Push"):
        return (await read_push(argument_of(kind, body)))[0]
    if len(body) > (most := _max_call(kind, method)):
        raise too_large(most)
    await check_number_of_containers_in_pieces(body)
    body = argument_of(kind, body)
    check_depth(body)
    return body


def _max_call(kind: str, method: str) -> int:
    """Returns the largest body of a call. The actors of an app parse theirs themselves."""
    if kind not in OWN_TYPES:
        return MAX_BODY
    return MAX_TEXT_CALL if (kind, method) == (ORCHESTRATION_TYPE, "Complete") else MAX_CALL


def _operations(kind: str, method: str, body: bytes) -> list[str]:
    """Returns the operator methods that are called, directly or in a batch, without duplicates."""
    known = OPERATIONS.get(kind, frozenset())
    called: list[Any] = [method]
    if known and method == "Batch":
        called = _batched(body)
    return sorted({name for name in called if isinstance(name, str) and name in known})


def _batched(body: bytes) -> list[Any]:
    """Returns the methods of a batch, read as the actors read it."""
    try:
        data = load(body)
    except ValueError:
        return []
    calls = data.get("calls") if isinstance(data, dict) else None
    return [call.get("method") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
