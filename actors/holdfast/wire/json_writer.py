"""The JSON writer: orjson, or pydantic-core in an installation of the client alone, which has no orjson."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    from orjson import dumps
except ModuleNotFoundError:

    def dumps(value: object, /, default: Callable[[object], object] | None = None) -> bytes:  # type: ignore[misc]
        return to_json(value, fallback=default, inf_nan_mode="null")


__all__ = ["dumps"]
