"""Errors keep their class, code and details on their way through one daprd and through two."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast import errors
from holdfast.runtime.dapr import DaprHostClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.dapr.cluster import Cluster, Replica

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("dapr-errors")


@pytest.fixture(scope="module")
async def far_client(cluster: Cluster, replica: Replica) -> AsyncIterator[DaprHostClient]:
    """Calls through a daprd that has no app of its own."""
    sidecar = await cluster.dapr.sidecar(app_id="caller")
    await sidecar.wait_ready()
    client = DaprHostClient(sidecar.url, f"127.0.0.1:{sidecar.grpc_port}")
    yield client
    await client.close()


@pytest.fixture(params=["near", "far"])
def client(request: pytest.FixtureRequest, replica: Replica, far_client: DaprHostClient) -> DaprHostClient:
    return replica.client if request.param == "near" else far_client


@pytest.mark.parametrize("raised", [errors.InvalidRequest, errors.NotFound, errors.Unavailable, errors.ReentrantCall])
async def test_a_designed_error_arrives_as_it_was_raised(
    client: DaprHostClient, raised: type[errors.HoldfastError]
) -> None:
    with pytest.raises(errors.HoldfastError) as caught:
        await client.invoke_method("Grumpy", "a", "refuse", f'"{raised.code}"'.encode())
    assert type(caught.value) is raised
    assert caught.value.error_code == raised.code
    assert caught.value.message == 'No {such} "thing": (500) ünï.'
    assert caught.value.details == {"thing": {"id": 7}, "hint": "kept"}


async def test_an_error_arrives_through_an_actor_in_between(client: DaprHostClient) -> None:
    call = b'{"type": "Grumpy", "id": "b", "method": "refuse", "body": "\\"NOT_FOUND\\""}'
    with pytest.raises(errors.NotFound) as caught:
        await client.invoke_method("Grumpy", "between", "relay", call)
    assert caught.value.details == {"thing": {"id": 7}, "hint": "kept"}


async def test_of_an_unexpected_error_the_caller_learns_nothing_but_the_log_everything(
    client: DaprHostClient, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(errors.HoldfastError) as caught:
        await client.invoke_method("Grumpy", "a", "break_down")
    assert caught.value.error_code == "INTERNAL"
    assert "hunter2" not in f"{caught.value.as_dict()}"
    assert "RuntimeError: the password is hunter2" in caplog.text


async def test_an_unknown_method_is_named(client: DaprHostClient) -> None:
    with pytest.raises(errors.NotFound, match="nonsense"):
        await client.invoke_method("Grumpy", "a", "nonsense")


async def test_an_unknown_type_is_not_found_and_one_of_ours_is_away(replica: Replica) -> None:
    # daprd looks for a host for five seconds; both at once.
    replica.client.hosted.add("Moved")
    try:
        unknown, away = await asyncio.gather(
            replica.client.invoke_method("Unheard", "a", "get"),
            replica.client.invoke_method("Moved", "a", "get"),
            return_exceptions=True,
        )
    finally:
        replica.client.hosted.discard("Moved")
    assert isinstance(unknown, errors.NotFound)
    assert "Unheard" in str(unknown)
    assert isinstance(away, errors.Unavailable)


async def test_a_reminder_of_an_unknown_type_is_not_found(replica: Replica) -> None:
    with pytest.raises(errors.NotFound):
        await replica.client.register_reminder("Unheard", "a", "wake", b'{"dueTime": "1s"}')


async def test_a_reminder_that_cannot_be_is_the_callers_mistake(replica: Replica) -> None:
    with pytest.raises(errors.InvalidRequest):
        await replica.client.register_reminder("Tally", "a", "wake", b'{"dueTime": "ten parsecs"}')
    # With all that is in front of it the scheduler takes 512 characters.
    with pytest.raises(errors.InvalidRequest):
        await replica.client.register_reminder("Tally", "a" * 500, "wake", b'{"dueTime": "1s"}')


async def test_an_actor_that_is_not_here_cannot_be_saved(replica: Replica) -> None:
    with pytest.raises(errors.ActorMoved):
        await replica.client.save_state_transactionally("Tally", "never-called", b"[]")
