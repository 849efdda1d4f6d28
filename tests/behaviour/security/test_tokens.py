"""Tokens: where they may stand, whose they are, and how they come and go while the server runs."""

from __future__ import annotations

import resource
import signal
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from holdfast.gateway.auth.tokens import digest_of
from tests.behaviour.security.guarded import QUEUE, TOKENS, bearer, entry
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.behaviour.security.guarded import Guarded

PATH = f"/queue/{QUEUE}"


@pytest.fixture
async def changing(guarded: Guarded) -> AsyncIterator[Guarded]:
    """A server whose token file a test may change."""
    yield guarded
    guarded.write(*map(entry, TOKENS))
    for name in TOKENS:
        await eventually(lambda: lets_in(guarded, name))  # noqa: B023 (called before the next round)


async def lets_in(guarded: Guarded, name: str) -> bool:
    return (await guarded.ask("GET", "/status", token=name)).status == 200


@pytest.mark.parametrize(
    "name", ["token", "access_token", "ACCESS_TOKEN", "access%5Ftoken", "api_key", "Authorization"]
)
@pytest.mark.parametrize("path", [PATH, "/queues", "/", "/healthz", "/nowhere", "/v1.0/metadata"])
async def test_a_token_in_the_url_is_refused_and_not_written_down(guarded: Guarded, path: str, name: str) -> None:
    for headers in ({}, bearer("operator")):
        for query in (f"{name}={TOKENS['operator']}", f"limit=1&{name}={quote('Bearer ' + TOKENS['operator'])}", name):
            answer, line = await guarded.told(
                lambda: guarded.ask("GET", f"{path}?{query}", headers=headers),  # noqa: B023
                status=400,
                path=path,
            )
            assert "Authorization: Bearer" in answer.refused(400, "INVALID_REQUEST")["message"]
            assert "?" not in str(line)


@pytest.mark.parametrize("tenant", ["other", "default", "ACME", "acme2"])
async def test_a_token_of_a_tenant_is_of_no_other(guarded: Guarded, tenant: str) -> None:
    for token in ("acme-user", "acme-operator"):
        (await guarded.ask("GET", PATH, token=token, headers={"Holdfast-Tenant": "acme"})).ok()
        answer, line = await guarded.told(
            lambda: guarded.ask("GET", PATH, token=token, headers={"Holdfast-Tenant": tenant}),  # noqa: B023
            status=403,
            path=PATH,
        )
        answer.refused(403, "FORBIDDEN")
        assert (line["token"], line["tenant"]) == (token, "acme")
        assert f"by {token} of acme from" in line["message"]


@pytest.mark.parametrize("token", ["user", "acme-operator"])
async def test_whoever_may_not_call_actors_is_named(guarded: Guarded, token: str) -> None:
    path = f"/v1.0/actors/PushPopActor/{QUEUE}/method/Pop"
    for headers in (bearer(token), {"dapr-api-token": TOKENS[token]}):
        answer, line = await guarded.told(
            lambda: guarded.ask("POST", path, headers=headers),  # noqa: B023
            status=403,
            path=path,
        )
        assert answer.status == 403
        assert line["token"] == token


@pytest.mark.parametrize(
    "tenant", ["", "a||b", "a/b", "../default", ".", "@acme", "a b", "\u0430", "a" * 256, "*", "a,b"]
)
async def test_a_tenant_has_a_name(guarded: Guarded, tenant: str) -> None:
    answer = await guarded.ask("GET", PATH, token="operator", headers={"Holdfast-Tenant": tenant})
    answer.refused(400, "INVALID_REQUEST")


async def test_a_revoked_token_is_refused_and_a_new_one_is_taken_without_a_restart(changing: Guarded) -> None:
    before = changing.app.pid
    await lets_in(changing, "user")
    fresh = "fresh-0123456789abcdef"
    digest = digest_of(fresh.encode()).hex()
    table = {"name": "fresh", "role": "user", "tenant": "*", "sha256": digest}
    changing.write(entry("reader"), entry("operator", role="reader"), table)
    await eventually(lambda: _refused(changing, "user"))
    assert (await changing.ask("GET", PATH, headers={"Authorization": f"Bearer {fresh}"})).status == 200
    assert await lets_in(changing, "reader")
    (await changing.ask("DELETE", f"{PATH}/items", token="operator")).refused(403, "FORBIDDEN")
    (await changing.ask("GET", PATH, headers={"Authorization": f"Bearer {digest}"})).refused(401, "UNAUTHORIZED")
    assert changing.app.pid == before


async def test_the_signal_that_has_it_read_does_not_end_the_server(changing: Guarded) -> None:
    def read() -> int:
        return changing.app.logged().count("was reloaded")

    before = read()
    changing.app.send_signal(signal.SIGHUP)

    async def read_again() -> bool:
        # Nothing has changed: by itself it would not have been read.
        return read() > before

    await eventually(read_again)
    assert await lets_in(changing, "user")


@pytest.mark.parametrize(
    "text",
    [
        "",
        f'[[token]]\nname = "x"\nrole = "root"\ntenant = "*"\ntoken = "{TOKENS["user"]}"',
    ],
)
async def test_a_file_that_is_not_right_changes_nothing_and_is_told_of_once(changing: Guarded, text: str) -> None:
    def told() -> int:
        return changing.app.logged().count("The previous tokens stay in use.")

    before = told()
    changing.write_text(text)

    async def seen() -> bool:
        return told() > before

    await eventually(seen)
    for name in TOKENS:
        assert await lets_in(changing, name)
    # The next check, which finds no change, is over when this one is logged.
    changing.write_text(text + "\n# the same")

    async def seen_again() -> bool:
        return told() > before + 1

    await eventually(seen_again)
    assert told() == before + 2


async def test_a_file_that_is_gone_changes_nothing(changing: Guarded) -> None:
    before = changing.app.logged().count("cannot be read")
    changing.file.unlink()

    async def seen() -> bool:
        return changing.app.logged().count("cannot be read") > before

    await eventually(seen)
    assert await lets_in(changing, "user")


async def test_a_token_that_is_revoked_while_files_cannot_be_opened_is_refused_afterwards(changing: Guarded) -> None:
    limits = resource.prlimit(changing.app.pid, resource.RLIMIT_NOFILE)
    # Connections that are open stay, and nothing else can be opened.
    resource.prlimit(changing.app.pid, resource.RLIMIT_NOFILE, (1, limits[1]))
    try:
        changing.write(*(entry(name) for name in TOKENS if name != "user"))

        async def failed() -> bool:
            return "Too many open files" in changing.app.logged()

        await eventually(failed)
    finally:
        resource.prlimit(changing.app.pid, resource.RLIMIT_NOFILE, limits)
    await eventually(lambda: _refused(changing, "user"))
    assert await lets_in(changing, "reader")


async def _refused(guarded: Guarded, name: str) -> bool:
    return (await guarded.ask("GET", "/status", token=name)).status == 401
