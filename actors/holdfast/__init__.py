"""Durable queues and durable orchestrations for Python services, on Dapr actors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.app import App

if TYPE_CHECKING:
    from holdfast.client import Client

__version__ = "0.1.0"

__all__ = ["App", "Client", "__version__"]


def __getattr__(name: str) -> Any:
    # A server imports this package too, and has no use for a client.
    if name == "Client":
        from holdfast.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
