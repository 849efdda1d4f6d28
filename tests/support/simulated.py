"""Makes a coroutine a test on a simulated host of its own, on a clock that jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.errors import TooLarge
from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Staged(Protocol):
    host: SimulatedHost

    async def start(self) -> None: ...


AnyStage = TypeVar("AnyStage", bound=Staged)


def staged(make: Callable[[], AnyStage], body: Callable[[AnyStage], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def run() -> None:
        stage = make()
        await stage.start()
        try:
            await body(stage)
        finally:
            await stage.host.stop()

    def test() -> None:
        VirtualTimeLoop.run(run())

    test.__doc__ = body.__doc__
    return test


def takes_little(host: SimulatedHost) -> None:
    """From now on its store refuses transactions of more than 500,000 bytes."""
    save = host.client.save_state

    async def save_little(actor_type: str, actor_id: str, changes: Any) -> None:
        if sum(len(change.value or b"") for change in changes) > 500_000:
            raise TooLarge("This is larger than the sidecar takes.")
        await save(actor_type, actor_id, changes)

    host.client.save_state = save_little  # type: ignore[method-assign]
