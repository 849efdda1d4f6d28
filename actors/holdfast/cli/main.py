"""``holdfast``: the command line's front door."""

from __future__ import annotations

import sys

import click

from holdfast import __version__
from holdfast.cli.dev import dev
from holdfast.cli.doctor import doctor
from holdfast.cli.idempotency import idempotency
from holdfast.cli.options import from_settings_file
from holdfast.cli.orchestration import orchestration
from holdfast.cli.queue import queue
from holdfast.cli.serve import serve
from holdfast.cli.snapshot import snapshot
from holdfast.cli.token import token
from holdfast.cli.worker import worker
from holdfast.errors import HoldfastError

_EPILOG = (
    "Every option is also an environment variable HOLDFAST_…, shown beside it, and a key of holdfast.toml in the "
    "working directory: the command line wins over the environment, and the environment over the file."
)


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="holdfast")
@click.pass_context
def cli(context: click.Context) -> None:
    """Durable queues and durable orchestrations for Python services, on Dapr actors."""
    assert isinstance(context.command, click.Group)
    context.default_map = from_settings_file(context.command)


for _command in (serve, worker, dev, doctor, queue, orchestration, idempotency, snapshot, token):
    cli.add_command(_command)


def main() -> None:
    """The console script. A designed error is one sentence and exit code 1; a wrong call is click's 2."""
    try:
        cli()
    except HoldfastError as error:
        click.echo(f"holdfast: {error}", err=True)
        sys.exit(1)
