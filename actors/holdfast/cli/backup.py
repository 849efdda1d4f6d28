"""``holdfast backup``: backs up the embedded server's data while it runs."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.options import option
from holdfast.cli.progress import progress_bar
from holdfast.logs import counted


@click.command(short_help="Back up the embedded server's data while it runs.")
@option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default="./holdfast-data",
    help="Data folder of the embedded server.",
)
@option(
    "--to",
    # Of other commands, too, where it is something else.
    envvar="HOLDFAST_BACKUP",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def backup(data: Path, to: Path, force: bool) -> None:
    """Write everything that the embedded server has stored at one moment into a file, while the server runs.

    The file is checked before it gets its name: it is complete and readable, or it is not there. To restore it, copy it
    as holdfast.db into an empty folder and run 'holdfast serve --data' with that folder.
    """
    # Imported here: it takes longer than the other commands need to start.
    from holdfast.runtime.embedded.data_folder import DataFolder
    from holdfast.state_store.backup import back_up

    with progress_bar() as progress:
        made = back_up(DataFolder(data).database, to, replace=force, progress=progress)
    stored = f"{counted(made.values, 'value')} and {counted(made.reminders, 'reminder')}"
    click.echo(f"Backed up {stored}, {made.size:,} bytes, to {to}")
