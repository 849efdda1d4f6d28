"""How state machines ask for what they have to see, without I/O of their own."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

Reply = TypeVar("Reply")

#: Yields the state keys it needs, some at a time, is sent their values, returns its reply.
Steps: TypeAlias = Generator[tuple[str, ...], list[Any], Reply]
