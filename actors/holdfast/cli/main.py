"""``holdfast``: the entry point of the command line."""

from __future__ import annotations

import logging
import sys
from importlib import import_module

import click

from holdfast import __version__
from holdfast.cli.options import from_settings_file
from holdfast.errors import HoldfastError
from holdfast.logs import is_json

#: Each command is a function of that name in a module of that name.
COMMANDS = (
    "backup",
    "dev",
    "doctor",
    "idempotency",
    "migrate",
    "orchestration",
    "queue",
    "schedule",
    "serve",
    "snapshot",
    "token",
    "worker",
)

_EPILOG = (
    "Every option can also be set by the environment variable HOLDFAST_… shown next to it, or by a key of "
    "holdfast.toml in the working directory. The command line wins over the environment, the environment over the file."
)


class Commands(click.Group):
    """Imports each command only when it is used: some take longer to import than others to run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"holdfast.cli.{cmd_name}"), cmd_name)
        return command


@click.group(
    cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="holdfast")
@click.pass_context
def cli(context: click.Context) -> None:
    """Durable queues and durable orchestrations for Python services, on Dapr actors."""
    context.default_map = from_settings_file(context)


def main() -> None:
    """Runs the command line. A HoldfastError is printed and exits with 1; wrong usage exits with click's 2."""
    try:
        cli()
    except HoldfastError as error:
        if is_json():
            logging.getLogger("holdfast").critical("%s", error)
        else:
            click.echo(f"holdfast: {error}", err=True)
        sys.exit(1)
