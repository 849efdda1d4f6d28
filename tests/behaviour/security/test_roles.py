"""Every call needs a role: a caller with a lower one is refused and audited, and changes nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour.security.guarded import PAYLOAD, QUEUE, SPARE

if TYPE_CHECKING:
    from tests.behaviour.security.guarded import Guarded
    from tests.support.rest import Answer

QUEUES = "/queue/{queue}"
ONE = "/orchestrations/{instance_id}"
KEY = "/idempotency/{tenant}/{key}"
SCHEDULE = "/schedules/{name}"

ROLES = {
    f"POST {QUEUES}/push": "user",
    f"POST {QUEUES}/pop": "user",
    f"POST {QUEUES}/acknowledge": "user",
    f"POST {QUEUES}/abandon": "user",
    f"POST {QUEUES}/extend-lock": "user",
    f"POST {QUEUES}/dead-letter": "user",
    f"POST {QUEUES}/complete": "user",
    f"DELETE {QUEUES}/items/{{id}}": "user",
    f"POST {QUEUES}/work": "user",
    f"GET {QUEUES}": "reader",
    f"GET {QUEUES}/peek": "reader",
    f"GET {QUEUES}/in-flight": "reader",
    f"GET {QUEUES}/dead-letters": "reader",
    f"GET {QUEUES}/config": "reader",
    "GET /queues": "reader",
    f"POST {QUEUES}/in-flight/{{lock_id_prefix}}/requeue": "operator",
    f"POST {QUEUES}/in-flight/{{lock_id_prefix}}/extend": "operator",
    f"POST {QUEUES}/redrive": "operator",
    f"DELETE {QUEUES}/items": "operator",
    f"POST {QUEUES}/dead-letters/delete": "operator",
    f"DELETE {QUEUES}": "operator",
    f"PUT {QUEUES}/config": "operator",
    "POST /orchestrations/{name}/start": "user",
    f"POST {ONE}/events/{{event}}": "user",
    f"POST {ONE}/cancel": "user",
    f"POST {ONE}/requests/{{request}}": "user",
    f"GET {ONE}/requests/{{request}}": "reader",
    f"POST {ONE}/outcome": "user",
    f"POST {ONE}/awaited": "user",
    f"POST {ONE}/heartbeat": "user",
    "GET /orchestrations": "reader",
    "GET /orchestrations/counts": "reader",
    "POST /orchestrations/bulk": "operator",
    f"GET {ONE}": "reader",
    f"GET {ONE}/history": "reader",
    f"GET {ONE}/wait": "reader",
    f"POST {ONE}/suspend": "operator",
    f"POST {ONE}/resume": "operator",
    f"POST {ONE}/rerun": "operator",
    f"DELETE {ONE}": "operator",
    "GET /definitions": "reader",
    "GET /workers": "reader",
    "GET /samples": "reader",
    "GET /schedules": "reader",
    f"PUT {SCHEDULE}": "operator",
    f"GET {SCHEDULE}": "reader",
    f"DELETE {SCHEDULE}": "operator",
    f"POST {SCHEDULE}/pause": "operator",
    f"POST {SCHEDULE}/resume": "operator",
    f"POST {SCHEDULE}/trigger": "operator",
    f"POST {SCHEDULE}/backfill": "operator",
    f"POST {KEY}/begin": "user",
    f"POST {KEY}/commit": "user",
    f"POST {KEY}/fail": "user",
    f"POST {KEY}/renew": "user",
    f"GET {KEY}": "reader",
}
#: Calls that show no tenant's data, or nothing at all.
OPEN = {"GET /healthz", "GET /readyz"}
FOR_ANY_TOKEN = {"GET /status", "GET /metrics"}

LESSER = {"reader": (), "user": ("reader",), "operator": ("reader", "user", "acme-user")}


def path_of(operation: str, name: str) -> tuple[str, str]:
    verb, path = operation.split(" ")
    return verb, re.sub(r"{\w+}", name, path.replace("{tenant}", "default"))


async def test_every_call_there_is_has_a_role(guarded: Guarded) -> None:
    document = (await guarded.ask("GET", "/openapi.json", token="reader")).ok()
    described = {
        f"{verb.upper()} {path}": operation.get("x-holdfast-role")
        for path, operations in document["paths"].items()
        for verb, operation in operations.items()
    }
    assert described == ROLES | dict.fromkeys(OPEN | FOR_ANY_TOKEN)


@pytest.mark.parametrize("operation", ROLES)
async def test_a_lesser_role_is_refused(guarded: Guarded, operation: str) -> None:
    verb, path = path_of(operation, QUEUE)
    for token in LESSER[ROLES[operation]]:

        async def refused() -> Answer:
            return await guarded.ask(verb, path, {}, token=token)  # noqa: B023 (called before the next round)

        answer, line = await guarded.told(refused, status=403, path=path, token=token)
        assert ROLES[operation] in answer.refused(403, "FORBIDDEN")["message"]
        assert (line["verb"], line["role"]) == (verb, token.rpartition("-")[2])


@pytest.mark.parametrize("operation", sorted({*ROLES, *FOR_ANY_TOKEN}))
async def test_without_a_token_nothing_is_told(guarded: Guarded, operation: str) -> None:
    verb, path = path_of(operation, QUEUE)
    for headers in (
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer a guess"},
        {"Authorization": "Basic b3BlcmF0b3I6b3BlcmF0b3I="},
        {"Authorization": "operator-0123456789abcdef"},
        {"X-Api-Key": "operator-0123456789abcdef"},
        {"Cookie": "token=operator-0123456789abcdef"},
        {"dapr-api-token": "operator-0123456789abcdef"},
    ):
        answer = await guarded.ask(verb, path, {}, headers=headers)
        answer.refused(401, "UNAUTHORIZED")
        assert PAYLOAD.encode() not in answer.text


@pytest.mark.parametrize("operation", ROLES)
async def test_the_role_itself_and_those_above_are_not(running: Guarded, operation: str) -> None:
    verb, path = path_of(operation, SPARE)
    if operation.endswith("/wait"):
        path += "?timeout_seconds=0"
    enough = ("reader", "user", "operator")
    for token in enough[enough.index(ROLES[operation]) :]:
        assert (await running.ask(verb, path, {}, token=token)).status not in (401, 403)


@pytest.mark.parametrize("operation", [operation for operation, role in ROLES.items() if role == "operator"])
async def test_what_an_operator_does_is_written_down(running: Guarded, operation: str) -> None:
    verb, path = path_of(operation, SPARE)
    told = len(running.audit())
    answer = await running.ask(verb, path, {}, token="acme-operator")
    [line] = acts(running, told, "acme-operator")
    assert (line["verb"], line["route"]) == tuple(operation.split(" "))
    assert (line["tenant"], line["role"]) == ("acme", "operator")
    assert line["status"] == answer.status
    assert set(line.get("names", {}).values()) == ({SPARE} if "{" in operation else set())
    # One line, also of what was refused.
    assert [one for one in running.audit()[told:] if one.get("token") == "acme-operator"] == [line]


async def test_what_others_do_is_not(running: Guarded) -> None:
    told = len(running.audit())
    (await running.ask("POST", f"/queue/{SPARE}/push", {"item": PAYLOAD}, token="operator")).ok()
    (await running.ask("POST", f"/queue/{SPARE}/pop", token="user")).ok()
    assert acts(running, told, "operator") + acts(running, told, "user") == []


def acts(guarded: Guarded, told: int, token: str) -> list[dict[str, Any]]:
    """Returns the audit lines about this token's calls after the first ``told`` lines; refusals have no route."""
    return [line for line in guarded.audit()[told:] if "route" in line and line["token"] == token]
