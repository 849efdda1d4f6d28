"""The options of ``holdfast orchestration start``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import option
from holdfast.cli.queue_input import from_arguments
from holdfast.client.start_options import start_fields
from holdfast.errors import InvalidRequest
from holdfast.pushpop.api.requests import MAX_PRIORITY
from holdfast.runtime.serialization import load
from holdfast.wire.times import read_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.client.start_options import StartEvent

_OPTIONS = (
    option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag of the instance. May be repeated."),
    option(
        "--priority",
        type=click.IntRange(0, MAX_PRIORITY),
        help="Priority of its activities in their queues; the lowest runs first.",
        show_default="0",
    ),
    option("--start-at", metavar="TIME", help="When its code begins, in ISO 8601; UTC without a time zone."),
    option("--event", metavar="NAME", help="Raise this event with the start, also if the instance exists."),
    option("--event-data", metavar="JSON", help="The data of --event.", show_default="null"),
    option("--event-id", help="The id of --event: events with the same id count once.", show_default="generated"),
)


def start_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a start to a command."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


def read_start_options(
    *,
    tags: Sequence[str],
    priority: int | None,
    start_at: str | None,
    event: str | None,
    event_data: str | None,
    event_id: str | None,
) -> dict[str, Any]:
    """Returns the options as fields of the request."""
    if event is None and not (event_data is None and event_id is None):
        raise click.UsageError("--event-data and --event-id need --event.")
    return start_fields(
        tags=read_tags(tags),
        priority=priority,
        start_at=read_moment(start_at, "--start-at"),
        event=None if event is None else _event(event, event_data, event_id),
    )


def read_tags(given: Sequence[str]) -> dict[str, str] | None:
    """Returns the tags given as ``KEY=VALUE``, split at the first equals sign."""
    tags: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--tag {text}: give it as KEY=VALUE.")
        if key in tags:
            raise click.UsageError(f"--tag {key}: given twice.")
        tags[key] = value
    return tags or None


def read_moment(given: str | None, name: str) -> datetime | None:
    """Returns a time of the option ``name``, in UTC unless it has a time zone."""
    if given is None:
        return None
    try:
        return datetime.fromtimestamp(read_time(given, name), UTC)
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error


def _event(name: str, data: str | None, event_id: str | None) -> StartEvent:
    event: StartEvent = {"name": name, "data": None if data is None else load(next(from_arguments([data])))}
    if event_id is not None:
        event["event_id"] = event_id
    return event
