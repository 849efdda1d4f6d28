"""Reminders that clients register without a failure policy, and that fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import grpc.aio
import pytest
from dapr.proto import api_service_v1, api_v1

from tests.conformance.side_by_side.differences import ATTEMPTS_BY_DAPRD
from tests.conformance.test_reminders import after, fired, register

if TYPE_CHECKING:
    from tests.support.stacks.served import ServedStack

pytestmark = pytest.mark.xdist_group("daprd-sqlite")


async def by_http(stack: ServedStack, actor: str) -> None:
    body = json.dumps({"dueTime": "0s"}).encode()
    status, _ = await stack.request("PUT", f"Reminded/{actor}/reminders/main", body)
    assert status == 204


async def by_grpc(stack: ServedStack, actor: str) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{stack.grpc_port}") as channel:
        await api_service_v1.DaprStub(channel).RegisterActorReminder(
            api_v1.RegisterActorReminderRequest(actor_type="Reminded", actor_id=actor, name="main", due_time="0s")
        )


WAYS = {"http": by_http, "grpc": by_grpc}


@pytest.mark.parametrize("way", WAYS)
def test_only_daprd_gives_one_up(sides: tuple[ServedStack, ServedStack], way: str) -> None:
    daprd, embedded = sides
    actor = f"without-a-policy-{way}"

    async def begin(stack: ServedStack) -> None:
        await register(stack, actor, 3600, failures=ATTEMPTS_BY_DAPRD)
        await WAYS[way](stack, actor)

    async def given_up() -> None:
        await fired(daprd, actor, at_least=ATTEMPTS_BY_DAPRD)
        # The interval between attempts is one second.
        attempts = await after(daprd, actor, due=3)
        assert [attempt["failed"] for attempt in attempts] == [True] * ATTEMPTS_BY_DAPRD

    async def repeated_until_it_succeeds() -> None:
        attempts = await fired(embedded, actor, at_least=ATTEMPTS_BY_DAPRD + 1, within=60)
        assert [attempt["failed"] for attempt in attempts] == [True] * ATTEMPTS_BY_DAPRD + [False]

    # Both sides at once.
    embedded.run(begin(embedded))
    daprd.run(begin(daprd))
    daprd.run(given_up())
    embedded.run(repeated_until_it_succeeds())
