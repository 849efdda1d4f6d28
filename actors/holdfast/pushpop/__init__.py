"""Queues: priorities, peek-locks, redelivery and dead letters, one actor for each queue."""

from __future__ import annotations

from holdfast.pushpop.interface import ACTOR_TYPE, PushPopActorInterface

__all__ = ["ACTOR_TYPE", "PushPopActorInterface"]
