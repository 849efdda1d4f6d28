"""Paths that are nearly those of something: only the whole path names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.behaviour.security.guarded import Guarded

ANSWERED = ["/", "/page/page.js", "/healthz", "/readyz", "/status", "/metrics", "/openapi.json", "/v1.0/metadata"]


@pytest.mark.parametrize("path", ANSWERED)
async def test_a_path_with_a_line_feed_at_its_end_is_another_path(guarded: Guarded, path: str) -> None:
    answer = await guarded.ask("GET", f"{path}%0a", token="operator")
    if path.startswith("/v1.0/") and guarded.host == "embedded":
        # A key of the metadata, which has no GET: refused as daprd refuses it.
        assert (answer.status, answer.body["errorCode"]) == (404, "ERR_DIRECT_INVOKE")
    else:
        answer.refused(404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/v1.0/healthz", "/v1.0/healthz/outbound"])
async def test_the_health_that_a_dapr_sdk_waits_for_needs_no_token(guarded: Guarded, path: str) -> None:
    """As at a daprd that has a token. Beside one it is daprd that is asked, and there is nothing at this path."""
    answer = await guarded.ask("GET", path)
    assert answer.status == (204 if guarded.host == "embedded" else 404)
