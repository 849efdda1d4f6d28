"""``holdfast orchestration check``: which running instances the code to be deployed would block."""

from __future__ import annotations

import sys
import traceback
from collections import defaultdict
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import option
from holdfast.cli.printing import printable
from holdfast.cli.queue_input import steps
from holdfast.cli.session import FAILED, UNCLEAR, server_command, show_json
from holdfast.client.api.orchestration_lists import count_runs
from holdfast.client.deploy_check import check_deploy
from holdfast.errors import SettingsError
from holdfast.logs import counted
from holdfast.orchestration.status import NOT_ENDED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.cli.session import Server, Session
    from holdfast.client.run_models import DeployCheck, WouldBlock
    from holdfast.orchestration.registry import Registry

EXIT_CODES = """\b
Exit codes:
  0  the code fits all instances that were checked
  1  the code would block some
  2  wrong usage, or an app that cannot be imported
  5  the server cannot be reached
  6  some instances could not be checked; the code fits the others
"""

# --json has all of them.
_MOST_NAMED = 20


@click.command(short_help="Check running instances against code to be deployed.", epilog=EXIT_CODES)
@click.argument("apps", nargs=-1, required=True, metavar="MODULE:APP...")
@option("--name", help="Only instances of this orchestration.")
@option(
    "--sample",
    type=click.IntRange(1),
    help="Only this many random instances of each version of each orchestration.",
    show_default="all",
)
@server_command
def check(server: Server, as_json: bool, apps: tuple[str, ...], name: str | None, sample: int | None) -> None:
    """Replay the running instances of the server at --url with the code of the apps, and list those it would block.

    Name all apps that will be deployed. The histories are read from the server and replayed in this process: no
    activity is run, and the instances do not notice. SUSPENDED, BLOCKED and PENDING instances are checked as well.
    """
    # What modules and orchestrations print must not come between the lines of the result.
    with redirect_stdout(sys.stderr):
        registry = _registry(apps)
        with server.connect() as session:
            result = _check(session, registry, name, sample)
    if as_json:
        show_json(asdict(result))
    else:
        _show(result)
    if result.blocked:
        sys.exit(FAILED)
    if result.unchecked:
        sys.exit(UNCLEAR)


def _check(session: Session, registry: Registry, name: str | None, sample: int | None) -> DeployCheck:
    total = None
    if sample is None and sys.stderr.isatty():
        numbers = session.ask(count_runs(session.connection, name))["counts"]
        total = sum(numbers.get(status, 0) for status in NOT_ENDED)
    with steps("checked", total) as report:
        return session.ask(check_deploy(session.connection, registry, name=name, sample=sample, progress=report))


def _registry(apps: Iterable[str]) -> Registry:
    from holdfast.cli.serve import load_app
    from holdfast.orchestration.registry import Registry

    try:
        return Registry.of([load_app(name).registry for name in apps])
    except SettingsError:
        raise
    except Exception as error:
        # Exit code 1 would mean that it would block instances.
        traceback.print_exc()
        raise SettingsError(f"{', '.join(apps)}: the code cannot be loaded: {type(error).__name__}.") from error


def _show(result: DeployCheck) -> None:
    reasons: dict[tuple[str | None, ...], list[WouldBlock]] = defaultdict(list)
    for found in result.blocked:
        reasons[found.name, found.version, found.kind, found.message, found.expected, found.found, found.line].append(
            found
        )
    for (name, version, kind, message, expected, done, line), instances in reasons.items():
        click.echo(f"{name}, version {version}: {counted(len(instances), 'instance')} would be BLOCKED ({kind})")
        click.echo(f"  {printable(message or '')}")
        for title, text in (("expected", expected), ("found", done), ("line", line)):
            if text is not None:
                click.echo(f"  {title:<9} {printable(text)}")
        click.echo(f"  instances {_named([found.instance_id for found in instances])}")
    for instance_id, why in list(result.unchecked.items())[:_MOST_NAMED]:
        click.echo(f"holdfast: {instance_id} could not be checked: {printable(why)}", err=True)
    if len(result.unchecked) > _MOST_NAMED:
        click.echo(f"holdfast: and {len(result.unchecked) - _MOST_NAMED} more could not be checked.", err=True)
    of = "" if result.checked == result.instances else f" of {result.instances:,}"
    verdict = "the code fits all of them" if not result.blocked else f"{len(result.blocked):,} would be BLOCKED"
    click.echo(f"{result.checked:,}{of} running instances checked: {verdict}.")


def _named(ids: list[str]) -> str:
    more = len(ids) - _MOST_NAMED
    return ", ".join(ids[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
