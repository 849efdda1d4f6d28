"""Checks that hold for every answer to every request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.gateway.auth.principal import Role
from holdfast.gateway.middleware.body_limits import MAX_ANSWER
from tests.behaviour.security.fuzz.operations import DAMAGED
from tests.behaviour.security.fuzz.server import MARKERS, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.behaviour.security.fuzz.requests import Request
    from tests.support.rest import Answer

_UNAVAILABLE = ("UNAVAILABLE", "PARTITION_UNAVAILABLE")


def problems(request: Request, answer: Answer) -> Iterator[str]:
    """Yields a sentence for each fault of the answer."""
    if answer.status >= 500 and (problem := _fault(request, answer)):
        yield problem
    if len(answer.text) > MAX_ANSWER:
        yield f"the answer has more than {MAX_ANSWER} bytes"
    for tenant, marker in MARKERS.items():
        if tenant not in request.may_see and marker.encode() in answer.text:
            yield f"the answer has a payload of the tenant {tenant}"
    if answer.status < 300 and not is_allowed(request):
        yield f"a caller of the role {request.caller.role} may not do this"


def _fault(request: Request, answer: Answer) -> str | None:
    try:
        body = answer.body
    except ValueError:
        return "a fault without JSON"
    if answer.status == 503:
        return _unavailable(answer, body.get("error_code"))
    if not request.operation.is_of_actors or answer.status != 500:
        return "a fault"
    # daprd's API has no other status for a call that an actor refuses.
    code, message = body.get("errorCode", ""), body.get("message", "")
    told = message.rpartition("(500) ")[2]
    inner = json.loads(told).get("errorCode") if told.startswith("{") else None
    if DAMAGED in request.path and inner == "STORAGE_BROKEN":
        return None
    if not code.startswith("ERR_ACTOR_") or inner in ("INTERNAL", "STORAGE_BROKEN"):
        return "a fault of an actor"
    return None


def _unavailable(answer: Answer, code: str) -> str | None:
    if "Retry-After" not in answer.headers:
        return "a 503 without Retry-After"
    return None if code in _UNAVAILABLE else "a 503 with another code"


def is_allowed(request: Request) -> bool:
    """Returns whether the caller's role permits the request."""
    caller, operation = request.caller, request.operation
    path = request.path.partition("?")[0]
    if operation.is_of_actors and path.startswith("/v1.0/actors"):
        return caller is OPERATOR
    if operation.role is None:
        return True
    return caller.role is not None and Role[caller.role.upper()] >= Role[operation.role.upper()]
