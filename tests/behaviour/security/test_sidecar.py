"""The actors themselves are for those who run the server, whichever way they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.behaviour.security.guarded import DAPR, PAYLOAD, QUEUE, SPARE, TOKENS, OnDapr, bearer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.behaviour.security.guarded import Guarded

ACTOR = f"PushPopActor/{QUEUE}"
ACTOR_API = [
    ("POST", f"/v1.0/actors/{ACTOR}/method/Pop"),
    ("GET", f"/v1.0/actors/{ACTOR}/state/metadata"),
    ("POST", f"/v1.0/actors/{ACTOR}/state"),
    ("DELETE", f"/v1.0/actors/{ACTOR}/reminders/wake"),
    ("POST", f"/v1.0/actors/{ACTOR}/timers/tick"),
    ("GET", "/v1.0/metadata"),
    ("GET", "/v1.0%2Fmetadata"),
    ("POST", f"/v1.0/actors%2f{ACTOR}/method/Pop"),
]
CALLBACKS = [
    ("GET", "/dapr/config"),
    ("PUT", f"/actors/{ACTOR}/method/Pop"),
    ("PUT", f"/actors/{ACTOR}/method/remind/wake"),
    ("PUT", f"/actors/{ACTOR}/method/timer/tick"),
    ("DELETE", f"/actors/{ACTOR}"),
]


@pytest.mark.parametrize("token", [None, "reader", "user", "acme-user", "acme-operator"])
@pytest.mark.parametrize(("verb", "path"), ACTOR_API)
async def test_the_actor_api_is_closed(guarded: Guarded, verb: str, path: str, token: str | None) -> None:
    for headers in (bearer(token), {"dapr-api-token": TOKENS[token]}) if token else ({},):
        answer = await guarded.ask(verb, path, headers=headers)
        assert answer.status == (403 if token else 401)
        assert PAYLOAD.encode() not in answer.text


@pytest.mark.parametrize("token", [None, *TOKENS])
@pytest.mark.parametrize(("verb", "path"), CALLBACKS)
async def test_what_daprd_calls_is_closed_to_others(guarded: Guarded, verb: str, path: str, token: str | None) -> None:
    answer = await guarded.ask(verb, path, b"null", token=token, headers={"dapr-app-id": "pretender"})
    assert PAYLOAD.encode() not in answer.text
    if isinstance(guarded, OnDapr):
        assert answer.status == 403
        return
    # Where Holdfast is the sidecar, this is a call of another app.
    assert answer.status == (401 if token is None else 500 if token == "operator" else 403)
    answer = await guarded.ask(verb, path, b"null", token=token)
    assert answer.status in (401, 404)
    assert PAYLOAD.encode() not in answer.text


async def test_whoever_runs_the_server_may_call_actors(running: Guarded) -> None:
    path = f"PushPopActor/{SPARE}"
    if isinstance(running, OnDapr):
        assert running.sidecar is not None
        url, token = running.sidecar.url, DAPR["DAPR_API_TOKEN"]
    else:
        url, token = f"http://127.0.0.1:{running.port}", TOKENS["operator"]
    async with aiohttp.ClientSession() as session:
        for given, status in ((token, 200), ("a guess", 401), ("", 401)):
            headers = {"dapr-api-token": given}
            call = session.post(f"{url}/v1.0/actors/{path}/method/Peek", json={"count": 1}, headers=headers)
            async with call as answer:
                assert answer.status == status
        name = {"dueTime": "1h"}
        async with session.post(
            f"{url}/v1.0/actors/{path}/reminders/spare", json=name, headers={"dapr-api-token": token}
        ) as answer:
            assert answer.status == 204
    if not isinstance(running, OnDapr):
        line = running.audit()[-1]
        assert line["route"] == "/v1.0/actors/{type}/{id}/reminders"
        assert (line["names"], line["status"]) == ({"type": "PushPopActor", "id": SPARE}, 204)


async def test_daprd_gets_through_to_the_actors(running: Guarded) -> None:
    """Turns, and reminders, which use the sidecar's other port: an unacknowledged lock expires."""
    (await running.ask("POST", "/queue/spare-reminded/push", {"item": 1}, token="user")).ok()
    taken = (await running.ask("POST", "/queue/spare-reminded/pop?require_ack=true&ttl_seconds=1", token="user")).ok()
    assert taken["count"] == 1

    async def came_back() -> bool:
        # Looked at past the server: a call would notice by itself.
        stored = running.stored(spare=True)
        return '"_active_lock"' not in next(stored[key] for key in stored if key.endswith("||spare-reminded||metadata"))

    await eventually(came_back)
