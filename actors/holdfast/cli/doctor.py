"""``holdfast doctor``: lists the components found on this machine, the missing ones, and how to get them."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, get_args

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.options import option
from holdfast.local.inventory import Purpose, take_inventory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.local.inventory import Finding

MISSING = 3

_PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
_SPOKEN: dict[Purpose, str] = {
    "embedded": "holdfast serve",
    "dapr": "holdfast dev, tests",
    "build": "building Dapr",
    "postgresql": "dev --store postgresql, tests",
    "spark": "Spark",
    "page": "tests of the page",
    "tilt": "tilt/",
    "deploy": "deploy/",
}


@click.command(short_help="List the components found, the missing ones, and how to get them.")
@option("--json", "as_json", is_flag=True, help="For programs: a JSON object instead of a table.")
@option(
    "--for",
    "purposes",
    type=click.Choice(_PURPOSES),
    multiple=True,
    default=("embedded",),
    help="Purpose whose components must be there; can be repeated.",
)
def doctor(as_json: bool, purposes: Sequence[Purpose]) -> None:
    """List the components found on this machine, the missing ones, and how to get them.

    Exit codes: 0 when all components needed for --for (default: the embedded server) are there, 3 when some are
    missing, 2 for wrong usage.
    """
    findings = take_inventory()
    missing = [finding for finding in findings if not finding.found and finding.needed_for in purposes]
    if as_json:
        components = [dataclasses.asdict(finding) for finding in findings]
        click.echo(json.dumps({"ok": not missing, "for": list(purposes), "components": components}, indent=2))
    else:
        _show(findings, missing, purposes)
    if missing:
        sys.exit(MISSING)


def _show(findings: Sequence[Finding], missing: Sequence[Finding], purposes: Sequence[Purpose]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("component", no_wrap=True)
    table.add_column("found", no_wrap=True)
    table.add_column("needed for", no_wrap=True)
    table.add_column("where, or how to get it", overflow="fold")
    for finding in findings:
        found = Text(finding.version or "yes", "green") if finding.found else Text("missing", "yellow")
        table.add_row(finding.name, found, _SPOKEN[finding.needed_for], Text(finding.where or finding.how_to_get or ""))
    console = Console(highlight=False)
    if not console.is_terminal:
        # Not a terminal: paths stay on one line, for grep.
        console.width = 200
    console.print(table)
    wanted = ", ".join(_SPOKEN[purpose] for purpose in purposes)
    if missing:
        console.print(f"Missing for {wanted}: {', '.join(finding.name for finding in missing)}.", markup=False)
    else:
        console.print(f"Nothing is missing for {wanted}.", markup=False)
