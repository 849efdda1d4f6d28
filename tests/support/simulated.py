"""Actors on a simulated host, and tests that run on its virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from holdfast.errors import TooLarge
from holdfast.kinds import ORCHESTRATION_TYPE
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from dapr.actor import Actor


class ActorStage:
    """A simulated host with the actors that a test is about. Subclasses name them, and add what tests ask of them."""

    def __init__(self, **options: Any) -> None:
        """The options are those of ``SimulatedHost``."""
        self.host = SimulatedHost(**options)

    def actors(self) -> Iterable[type[Actor]]:
        raise NotImplementedError

    async def start(self) -> None:
        for actor_class in self.actors():
            await self.host.register(actor_class)
        await self.host.start()

    async def stop(self) -> None:
        await self.host.stop()

    async def restart(self) -> None:
        """Continues on the same storage with a new process."""
        self.host = await self.host.restarted()

    async def invoke(self, actor_type: str, actor_id: str, method: str, data: Any = None) -> Any:
        return load(await self.host.client.invoke_method(actor_type, actor_id, method, dump(data)))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()


class InstanceStage(ActorStage):
    """A simulated host with orchestration instances."""

    async def ask(self, instance_id: str, method: str, **data: Any) -> Any:
        return await self.invoke(ORCHESTRATION_TYPE, instance_id, method, data or None)


AnyStage = TypeVar("AnyStage", bound=ActorStage)


def on_simulated_host(
    make: Callable[[], AnyStage],
) -> Callable[[Callable[[AnyStage], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Makes a coroutine a test that gets a started stage of its own, on a clock that jumps."""

    def decorate(body: Callable[[AnyStage], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def run() -> None:
            stage = make()
            await stage.start()
            try:
                await body(stage)
            finally:
                await stage.stop()

        def test() -> None:
            VirtualTimeLoop.run(run())

        test.__doc__ = body.__doc__
        return test

    return decorate


def takes_little(host: SimulatedHost) -> None:
    """From now on its store refuses transactions of more than 500,000 bytes."""
    save = host.client.save_state

    async def save_little(actor_type: str, actor_id: str, changes: Any) -> None:
        if sum(len(change.value or b"") for change in changes) > 500_000:
            raise TooLarge("This is larger than the sidecar takes.")
        await save(actor_type, actor_id, changes)

    host.client.save_state = save_little  # type: ignore[method-assign]
