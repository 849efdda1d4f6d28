"""Durable queues and durable orchestrations for Python services, on Dapr actors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client import Client
    from holdfast.client.sync import SyncClient
    from holdfast.embedding import serve
    from holdfast.orchestration.core.context import Context
    from holdfast.orchestration.core.requests import Request
    from holdfast.orchestration.retry import Retry
    from holdfast.runtime.unit_of_work import DurableActor
    from holdfast.worker.context import activity_context

__version__ = "0.1.0"

__all__ = [
    "App",
    "Client",
    "Context",
    "DurableActor",
    "Request",
    "Retry",
    "SyncClient",
    "__version__",
    "activity_context",
    "serve",
]


def __getattr__(name: str) -> Any:
    # Only what is asked for: a server has no use for a client, nor a client for the actor SDK, nor Spark for either.
    if name == "App":
        from holdfast.app import App

        return App
    if name == "Retry":
        from holdfast.orchestration.retry import Retry

        return Retry
    if name == "Client":
        from holdfast.client import Client

        return Client
    if name == "SyncClient":
        from holdfast.client.sync import SyncClient

        return SyncClient
    if name == "Context":
        from holdfast.orchestration.core.context import Context

        return Context
    if name == "Request":
        from holdfast.orchestration.core.requests import Request

        return Request
    if name == "DurableActor":
        from holdfast.runtime.unit_of_work import DurableActor

        return DurableActor
    if name == "activity_context":
        from holdfast.worker.context import activity_context

        return activity_context
    if name == "serve":
        from holdfast.embedding import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
