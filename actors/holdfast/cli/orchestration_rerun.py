"""``holdfast orchestration rerun``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.options import option
from holdfast.cli.session import server_command, show_json

if TYPE_CHECKING:
    from holdfast.cli.session import Server


@click.command(short_help="Start a new instance from a part of the history of one.")
@click.argument("source", metavar="ID")
@option("--from-seq", type=click.IntRange(1), help="The first event that is not copied.", show_default="from the start")
@option("--from-failure", is_flag=True, help="Try the last activity or sub-orchestration that failed again.")
@option("--instance-id", help="Id of the new instance.", show_default="generated")
@option(
    "--version",
    envvar="HOLDFAST_ORCHESTRATION_VERSION",
    help="Version of the orchestration.",
    show_default="the one of the source",
)
@option("--execution-id", type=click.IntRange(1), help="An earlier execution.", show_default="the latest")
@server_command
def rerun(
    server: Server,
    as_json: bool,
    source: str,
    from_seq: int | None,
    from_failure: bool,
    instance_id: str | None,
    version: str | None,
    execution_id: int | None,
) -> None:
    """Start a new instance that has the first events of the instance ID, and print its id.

    The instance ID does not change. What has completed in the copied events is not run again.
    """
    import uuid

    if from_failure and from_seq is not None:
        raise click.UsageError("Give either --from-seq or --from-failure.")
    fields = {
        "from_seq": from_seq,
        "from": "failure" if from_failure else None,
        "version": version,
        "execution_id": execution_id,
    }
    with server.connect() as session:
        answer = session.ask(session.run(source).rerun(instance_id or str(uuid.uuid4()), fields))
    if as_json:
        show_json(answer)
        return
    click.echo(answer["instance_id"])
    if not answer["created"]:
        click.echo("The instance exists already; it was not started again.", err=True)
