"""`python -m holdfast.local ensure`: what tests and `holdfast dev` need, found or built before they start."""

from __future__ import annotations

import sys

import click

from holdfast.errors import ComponentMissing
from holdfast.local.binaries import DAPR_VERSION, ensure_dapr
from holdfast.local.postgres import find_postgres
from holdfast.local.progress import TerminalProgress


@click.group(help="Dapr and PostgreSQL on this machine.")
def main() -> None:
    pass


@main.command(help="Finds Dapr and PostgreSQL, and builds Dapr when it is missing. Ends with 1 when it cannot.")
def ensure() -> None:
    try:
        with TerminalProgress() as progress:
            dapr = ensure_dapr(progress)
        postgres = find_postgres()
    except ComponentMissing as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    for name, path in (("daprd", dapr.daprd), ("placement", dapr.placement), ("scheduler", dapr.scheduler)):
        click.echo(f"{name:<11}{DAPR_VERSION:<8}{path}")
    click.echo(f"{'postgresql':<11}{postgres.version:<8}{postgres.folder}")


if __name__ == "__main__":
    main(prog_name="python -m holdfast.local")
