"""The options of a start, beside the input: what an instance begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping


class StartOptions(TypedDict, total=False):
    """The options of :meth:`Client.start`."""

    #: Short texts by which the instance can be found: 20 at most.
    tags: Mapping[str, str] | None


def start_fields(*, tags: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the options as fields of the request."""
    fields: dict[str, Any] = {"tags": None if tags is None else dict(tags)}
    return {name: value for name, value in fields.items() if value is not None}
