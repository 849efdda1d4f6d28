"""Queues with priorities, peek-locks, redelivery and dead letters; one actor for each queue or partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.pushpop.api.interface import PushPopActorInterface

__all__ = ["PushPopActorInterface"]


def __getattr__(name: str) -> Any:
    # The interface needs Dapr's SDK; the core and readers of stored queues do without.
    if name == "PushPopActorInterface":
        from holdfast.pushpop.api.interface import PushPopActorInterface

        return PushPopActorInterface
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
