"""A server of each kind for all attacks, and the checks after each attack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.security.guarded import TOKENS, Guarded, OnDapr, OnEmbedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_KINDS = [
    pytest.param(kind, id=kind.host, marks=pytest.mark.xdist_group(f"attacks-{kind.host}"))
    for kind in (OnEmbedded, OnDapr)
]


@pytest.fixture(scope="package", params=_KINDS)
async def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    async with request.param(tmp_path_factory.mktemp(f"guarded-{request.param.host}")) as guarded:
        yield guarded


@pytest.fixture
async def guarded(running: Guarded) -> AsyncIterator[Guarded]:
    """To be attacked: afterwards nothing has changed, no secret was written down, and it still answers."""
    before = running.stored()
    yield running
    assert (await running.ask("GET", "/readyz")).status == 200
    assert running.stored() == before
    logged = running.app.logged()
    assert not [name for name, token in TOKENS.items() if token in logged]
    assert "Traceback" not in logged
