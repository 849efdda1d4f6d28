"""The protocol by which pure state machines read state."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

Reply = TypeVar("Reply")

#: A generator that yields the state keys it needs, is sent their values, and returns its reply.
Reads: TypeAlias = Generator[tuple[str, ...], list[Any], Reply]
