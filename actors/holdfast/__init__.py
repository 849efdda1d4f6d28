"""Durable queues and durable orchestrations for Python services, on Dapr actors."""

from __future__ import annotations

__version__ = "0.1.0"
