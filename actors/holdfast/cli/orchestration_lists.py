"""``holdfast orchestration list`` and ``counts``, and the options that select instances."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import orchestration_tables as tables
from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.orchestration_start import read_moment, read_tags
from holdfast.cli.session import NOTHING_THERE, server_command, show_json
from holdfast.cli.watch import interval_option, watch
from holdfast.client.api.orchestration_lists import count_runs, list_runs
from holdfast.client.instance_filter import filter_fields
from holdfast.orchestration.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.cli.session import Server, Session
    from holdfast.client.api.orchestration_lists import Answer

MOST_LISTED = 100

_TIMES = {
    "started_after": "Only instances started at this time or later, in ISO 8601; UTC without a time zone.",
    "started_before": "Only instances started before this time.",
    "ended_after": "Only instances that ended at this time or later.",
    "ended_before": "Only instances that ended before this time.",
}
_FILTER = (
    option(
        "--status",
        multiple=True,
        type=click.Choice([*Status], case_sensitive=False),
        help="Only instances with this status. May be repeated: one of them is enough.",
    ),
    option("--name", help="Only instances of this orchestration."),
    option("--version", envvar="HOLDFAST_ORCHESTRATION_VERSION", help="Only instances of this version."),
    option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Only instances with this tag. May be repeated."),
    *(option(f"--{name.replace('_', '-')}", metavar="TIME", help=text) for name, text in _TIMES.items()),
    option("--id-prefix", metavar="TEXT", help="Only instances whose id begins so."),
)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that select instances to a command, which gets them as one argument ``selected``."""

    @functools.wraps(command)
    def with_filter(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in ("name", "version", "id_prefix")}
        given |= {name: read_moment(options.pop(name), f"--{name.replace('_', '-')}") for name in _TIMES}
        given["status"] = [Status(one).value for one in options.pop("status")] or None
        given["tags"] = read_tags(options.pop("tags"))
        return command(*args, selected=filter_fields(**given), **options)

    decorated: Callable[..., Any] = with_filter
    for add in reversed(_FILTER):
        decorated = add(decorated)
    return decorated


@click.command("list", short_help="List instances.")
@filter_options
@option("--order", type=click.Choice(["newest", "oldest"]), default="newest", help="By the time of the start.")
@option("--limit", type=click.IntRange(1), default=50, help="Largest number to list.")
@option("--waiting", is_flag=True, help="Show what each instance waits for, and since when.")
@option("--watch", "watching", is_flag=True, help="Refresh until Ctrl-C.")
@interval_option
@server_command
def list_them(
    server: Server,
    as_json: bool,
    selected: Answer,
    order: str,
    limit: int,
    waiting: bool,
    watching: bool,
    interval: float,
) -> None:
    """List the instances that match all options, the newest first. Exits with 3 when there are none.

    With --watch and --json, prints one line per refresh.
    """
    with server.connect() as session:
        if watching:
            look = lambda: _listed(session, selected, order, limit, waiting)  # noqa: E731
            watch(look, lambda found: tables.instances(found["orchestrations"]), as_json=as_json, interval=interval)
            return
        found = _listed(session, selected, order, limit, waiting)
    if as_json:
        show_json(found)
    elif found["orchestrations"]:
        printing.console().print(tables.instances(found["orchestrations"]))
        if "next_cursor" in found:
            click.echo("There may be more; raise --limit to see them.")
    else:
        click.echo("No such instances.", err=True)
    if not found["orchestrations"]:
        sys.exit(NOTHING_THERE)


@click.command(short_help="Count instances by status and orchestration.")
@option("--name", help="Only instances of this orchestration.")
@server_command
def counts(server: Server, as_json: bool, name: str | None) -> None:
    """Count the instances of each orchestration by their status. Exits with 3 when there are none."""
    with server.connect() as session:
        answer = session.ask(count_runs(session.connection, name))
    if as_json:
        show_json(answer)
    elif answer["counts"]:
        printing.console().print(tables.counts(answer))
    else:
        click.echo("No such instances.", err=True)
    if not answer["counts"]:
        sys.exit(NOTHING_THERE)


def _listed(session: Session, selected: Answer, order: str, limit: int, waiting: bool) -> Answer:
    found: list[Answer] = []
    cursor: str | None = None
    while True:
        most = min(MOST_LISTED, limit - len(found))
        page = session.ask(list_runs(session.connection, selected, most, cursor, order, waiting=waiting))
        found += page["orchestrations"]
        cursor = page.get("next_cursor")
        if cursor is None or len(found) >= limit:
            return {"orchestrations": found} | ({} if cursor is None else {"next_cursor": cursor})
