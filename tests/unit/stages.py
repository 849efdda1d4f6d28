"""Makes a coroutine a test on a simulated host of its own, on a clock that jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from holdfast.runtime.simulated import SimulatedHost, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any


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
