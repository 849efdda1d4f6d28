"""Frozen dataclasses that travel as JSON objects: events, messages, effects."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar

from holdfast.orchestration.failures import Failure

Kind = TypeVar("Kind", bound="Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """Who waits for a sub-orchestration, and as which of its steps."""

    instance_id: str
    execution_id: int
    scheduled_seq: int
    #: Which instance of that id: another may have it later.
    life: str | None = None

    def dump(self) -> dict[str, Any]:
        dumped: dict[str, Any] = {
            "instance_id": self.instance_id,
            "execution_id": self.execution_id,
            "scheduled_seq": self.scheduled_seq,
        }
        return dumped if self.life is None else dumped | {"life": self.life}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Something with a type and fields, of which those that are None are left out."""

    @property
    def type(self) -> str:
        return type(self).__name__

    def dump(self) -> dict[str, Any]:
        dumped: dict[str, Any] = {"type": self.type}
        for name in _names(type(self)):  # type: ignore[arg-type]  # a class is hashable, whatever its instances are
            value = getattr(self, name)
            if isinstance(value, Failure | Parent):
                dumped[name] = value.dump()
            elif value is not None:
                dumped[name] = value
        return dumped


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def load_record(kinds: dict[str, type[Kind]], dumped: dict[str, Any]) -> Kind:
    """What ``dump`` wrote. Raises ValueError for what is none of these."""
    values = dict(dumped)
    try:
        kind = kinds[values.pop("type")]
        if "error" in values:
            values["error"] = Failure.load(values["error"])
        if "parent" in values:
            values["parent"] = Parent(**values["parent"])
        return kind(**values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"This cannot be read: {error!r}.") from error
