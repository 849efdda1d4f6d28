"""`python -m holdfast.local ensure`: finds, installs or builds the programs the tests need."""

from __future__ import annotations

import sys

import click

from holdfast.errors import ComponentMissing
from holdfast.local.binaries import DAPR_VERSION, ensure_dapr
from holdfast.local.chromium import ensure_chromium
from holdfast.local.java import ensure_java
from holdfast.local.postgres import find_postgres
from holdfast.local.progress import TerminalProgress


@click.group(help="Dapr, PostgreSQL, Java and Chromium on this machine.")
def main() -> None:
    pass


@main.command()
def ensure() -> None:
    """Find Java, Chromium, PostgreSQL and Dapr; install the first two and build Dapr if they are missing.

    Exits with 1, and prints how to get it, when one of them is not available.
    """
    try:
        with TerminalProgress() as progress:
            java = ensure_java(progress)
            chromium = ensure_chromium(progress)
            postgres = find_postgres()
            dapr = ensure_dapr(progress)
    except ComponentMissing as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    for name, version, place in (
        ("java", java.version, java.program),
        ("chromium", chromium.version, chromium.program),
        ("postgresql", postgres.version, postgres.folder),
        ("daprd", DAPR_VERSION, dapr.daprd),
        ("placement", DAPR_VERSION, dapr.placement),
        ("scheduler", DAPR_VERSION, dapr.scheduler),
    ):
        click.echo(f"{name:<11}{version:<15} {place}")


if __name__ == "__main__":
    main(prog_name="python -m holdfast.local")
