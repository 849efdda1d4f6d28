"""Frozen dataclasses with a JSON form: events, messages, effects."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar

from holdfast.orchestration.core.failures import Failure

Kind = TypeVar("Kind", bound="JsonRecord")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The instance that waits for a child, and the event in its history that scheduled the child."""

    instance_id: str
    execution_id: int
    scheduled_seq: int
    #: The incarnation of the parent, because its id may be reused later.
    incarnation: str | None = None

    def dump(self) -> dict[str, Any]:
        dumped: dict[str, Any] = {
            "instance_id": self.instance_id,
            "execution_id": self.execution_id,
            "scheduled_seq": self.scheduled_seq,
        }
        return dumped if self.incarnation is None else dumped | {"incarnation": self.incarnation}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRecord:
    """A record whose JSON form has its type and the fields that are not None."""

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
    """Returns the record that ``dump`` wrote. Raises ValueError when ``dumped`` is none of ``kinds``."""
    values = dict(dumped)
    try:
        kind = kinds[values.pop("type")]
        if "error" in values:
            values["error"] = Failure.load(values["error"])
        if "parent" in values:
            values["parent"] = Parent(**values["parent"])
        return kind(**values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"The record is invalid: {error!r}.") from error
