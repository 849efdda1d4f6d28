"""Durable queues and durable orchestrations for Python services, on Dapr actors."""

from __future__ import annotations

from holdfast.app import App

__version__ = "0.1.0"

__all__ = ["App", "__version__"]
