"""Calls by app id: they need what the same requests need, and pages cannot send them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.behaviour.security.guarded import DAPR, PAYLOAD, QUEUE, SPARE, TOKENS, OnDapr, bearer
from tests.behaviour.security.test_roles import LESSER, ROLES, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.behaviour.security.guarded import Guarded

PAGE = [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://shop.example"}]


async def invoke(
    guarded: Guarded, verb: str, path: str, headers: Mapping[str, str], body: Any = None, app: str = "holdfast"
) -> tuple[int, str]:
    """Calls an app by its id: on Dapr through the sidecar of another app."""
    url = f"http://127.0.0.1:{guarded.port}"
    if isinstance(guarded, OnDapr):
        assert guarded.neighbour is not None
        url = guarded.neighbour.url
    async with (
        aiohttp.ClientSession() as session,
        session.request(verb, f"{url}/v1.0/invoke/{app}/method{path}", headers=headers, json=body) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize("operation", ROLES)
async def test_a_call_by_app_id_needs_the_same_role(guarded: Guarded, operation: str) -> None:
    verb, path = path_of(operation, QUEUE)
    for token in LESSER[ROLES[operation]]:
        status, text = await invoke(guarded, verb, path, bearer(token), {})
        assert (status, ROLES[operation] in text) == (403, True)
    for headers in ({}, {"Authorization": "Bearer a guess"}, {"Authorization": "Basic ZGFwci1hcHAtaWQ6aG9sZGZhc3Q="}):
        status, text = await invoke(guarded, verb, path, headers, {})
        assert (status, PAYLOAD in text) == (401, False)


async def test_a_tenants_token_stays_with_its_tenant(guarded: Guarded) -> None:
    headers = bearer("acme-operator")
    assert PAYLOAD not in (await invoke(guarded, "GET", f"/queue/{QUEUE}/peek", headers))[1]
    status, _ = await invoke(guarded, "GET", f"/queue/{QUEUE}/peek", {**headers, "Holdfast-Tenant": "default"})
    assert status == 403


async def test_the_sidecars_own_paths_are_not_among_the_apps(guarded: Guarded) -> None:
    for path in (
        "/v1.0/metadata",
        f"/v1.0/actors/PushPopActor/{QUEUE}/state/metadata",
        f"/v1.0/invoke/holdfast/method/queue/{QUEUE}/peek",
    ):
        for token in ("reader", "acme-operator", "operator"):
            status, text = await invoke(guarded, "GET", path, bearer(token))
            assert (status in (403, 404), PAYLOAD in text) == (True, False)


async def test_the_token_of_an_sdk_is_taken_where_holdfast_is_the_sidecar(guarded: Guarded) -> None:
    if isinstance(guarded, OnDapr):
        # There it is daprd's own token, and says nothing to the app.
        headers = {"dapr-api-token": TOKENS["operator"]}
        assert (await invoke(guarded, "GET", f"/queue/{QUEUE}", headers))[0] == 401
        assert (
            await guarded.ask("GET", f"/queue/{QUEUE}", headers={**headers, "dapr-app-id": "holdfast"})
        ).status == 401
        return
    for token, status in (("reader", 200), ("acme-user", 200)):
        assert (await invoke(guarded, "GET", f"/queue/{QUEUE}", {"dapr-api-token": TOKENS[token]}))[0] == status
    headers = {"dapr-api-token": TOKENS["reader"], "dapr-app-id": "holdfast"}
    assert (await guarded.ask("GET", f"/queue/{QUEUE}", headers=headers)).status == 200
    assert (await guarded.ask("DELETE", f"/queue/{QUEUE}/items", headers=headers)).status == 403


async def test_another_app_is_looked_for_only_by_those_who_run_the_server(guarded: Guarded) -> None:
    if isinstance(guarded, OnDapr):
        return  # daprd asks for its own token first
    for token, status in ((None, 401), ("reader", 403), ("acme-operator", 403), ("operator", 500)):
        headers = bearer(token) if token else {}
        assert (await invoke(guarded, "GET", "/queues", headers, app="nowhere"))[0] == status
        answer = await guarded.ask("GET", "/queues", headers={**headers, "dapr-app-id": "nowhere"})
        assert answer.status == status


@pytest.mark.parametrize("page", PAGE, ids=str)
async def test_a_service_may_pass_on_the_headers_of_a_page(running: Guarded, page: dict[str, str]) -> None:
    status, _ = await invoke(running, "POST", f"/queue/{SPARE}/push", {**bearer("user"), **page}, {"item": 1})
    assert status == 200


@pytest.mark.parametrize("page", PAGE, ids=str)
async def test_a_page_may_not_call_by_app_id(guarded: Guarded, page: dict[str, str]) -> None:
    for headers in ({}, {"Authorization": "Basic eDp5"}, {"Cookie": "a=b"}, {"dapr-caller-app-id": "shop"}):
        for verb, path in (("POST", f"/queue/{QUEUE}/push"), ("GET", f"/queue/{QUEUE}/peek")):
            status, text = await invoke(guarded, verb, path, {**headers, **page}, {"item": 1})
            assert (status, PAYLOAD in text) == (403, False)


async def test_a_browser_that_asks_beforehand_is_told_no(guarded: Guarded) -> None:
    """The question whether a page may send a header, which daprd passes on to the app."""
    question = {
        "Origin": "https://shop.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,dapr-app-id",
    }
    urls = [f"http://127.0.0.1:{guarded.port}"]
    if isinstance(guarded, OnDapr):
        assert guarded.neighbour is not None
        assert guarded.sidecar is not None
        urls += [guarded.neighbour.url, guarded.sidecar.url]
    async with aiohttp.ClientSession() as session:
        for url in urls:
            for path in ("", "/v1.0/invoke/holdfast/method"):
                async with session.options(f"{url}{path}/queue/{QUEUE}/push", headers=question) as answer:
                    assert answer.status >= 400
                    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


async def test_what_is_put_into_the_metadata_is_bounded(running: Guarded) -> None:
    if isinstance(running, OnDapr):
        assert running.sidecar is not None
        assert DAPR  # daprd keeps its own
        return
    for token, status in ((None, 401), ("user", 403), ("acme-operator", 403)):
        assert (await running.ask("PUT", "/v1.0/metadata/a", b"1", token=token)).status == status
    for path, body in (("a" * 257, b"1"), ("a", b"x" * 4097), ("a", b"x" * 100_000)):
        assert (await running.ask("PUT", f"/v1.0/metadata/{path}", body, token="operator")).status == 400
    # Other tests may have put something there.
    statuses = [
        (await running.ask("PUT", f"/v1.0/metadata/{number}", b"x", token="operator")).status for number in range(100)
    ]
    taken = statuses.count(204)
    assert 90 < taken <= 100
    assert statuses == [204] * taken + [400] * (100 - taken)
    assert (await running.ask("PUT", "/v1.0/metadata/one-more", b"x", token="operator")).status == 400
    assert (await running.ask("PUT", "/v1.0/metadata/7", b"other", token="operator")).status == 204
    assert running.audit()[-1]["route"] == "/v1.0/metadata/{key}"
    seen = (await running.ask("GET", "/v1.0/metadata", token="operator")).ok()["extended"]
    assert (seen["7"], "one-more" in seen) == ("other", False)
