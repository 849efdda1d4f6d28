"""``holdfast snapshot``: saves the state of one moment as Parquet, checks its consistency, and writes a report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.progress import progress_bar
from holdfast.cli.session import show_json
from holdfast.cli.snapshot_tables import changed, kept
from holdfast.errors import ComponentMissing, InvalidRequest

if TYPE_CHECKING:
    from holdfast.spark.pipeline.manifest import Manifest
    from holdfast.spark.pipeline.pipeline import Taken, Work

DOES_NOT_ADD_UP = 3
EMBEDDED_FILE = Path("holdfast-data") / "holdfast.db"

# A snapshot is readable for its user only, like the data folder.
_OTHERS = 0o077

_EXIT_CODES = """\b
Exit codes:
  0  saved, and the checks passed
  1  failed: nothing was saved
  2  wrong usage
  3  saved, but checks failed: the findings are printed, and are in the manifest and the report
"""


@click.command(short_help="Save the state of one moment as Parquet, with a report.", epilog=_EXIT_CODES)
@option(
    "--url",
    # HOLDFAST_URL is the URL of the server.
    envvar="HOLDFAST_STORE_URL",
    show_default=f"the embedded server's file in ./{EMBEDDED_FILE.parent}",
    help="The state store's database: sqlite:///path or postgresql://…; 'holdfast serve' prints its own.",
)
@option(
    "--to",
    envvar="HOLDFAST_SNAPSHOTS",
    type=click.Path(file_okay=False, path_type=Path),
    default="./holdfast-snapshots",
    help="Folder of the series; each snapshot gets its own folder in it.",
)
@option("--against", metavar="EARLIER", help="Compare with an earlier snapshot: its folder, or 'latest'.")
@option("--report/--no-report", "with_report", default=True, help="Write an HTML report.")
@option("--app-id", help="Only the state of this app, if several share the table.", show_default="all")
@option("--tenant", help="Only the state of this tenant.", show_default="all")
@option("--table-prefix", help="The prefix of Dapr's state table, if its component sets one.")
@option("--table-name", help="The name of Dapr's state table, if its component sets one.")
@option("--master", default="local[*]", help="Spark master.")
@option(
    "--remote", metavar="sc://…", help="Spark Connect URL, instead of --master. Both sides must see the folder --to."
)
@option("--json", "as_json", is_flag=True, help="Print the manifest as a JSON object.")
def snapshot(
    url: str | None,
    to: Path,
    against: str | None,
    with_report: bool,
    app_id: str | None,
    tenant: str | None,
    table_prefix: str | None,
    table_name: str | None,
    master: str,
    remote: str | None,
    as_json: bool,
) -> None:
    """Save every queue, item, lock, dead letter, instance, event and idempotency record of one moment as Parquet.

    The servers keep running. The snapshot is checked for consistency: counts against items and locks, completions
    against scheduled steps, dead letters against their original queues. The snapshots of one folder are a series: the
    report shows its trend, and holdfast.spark.series reads the tables over time.
    """
    url = url or _embedded_url()
    if url.startswith(("http://", "https://")):
        # The URL is not shown: it may have a password.
        raise click.UsageError(
            "--url is the URL of a server; give the state store's database, sqlite:///path or postgresql://…."
        )
    try:
        from holdfast.spark import errors as failures
        from holdfast.spark.pipeline import preflight
        from holdfast.spark.pipeline.pipeline import take
        from holdfast.spark.session import LOCAL, spark_session
        from holdfast.spark.snapshots import snapshot as open_snapshot
        from holdfast.spark.source.options import Options, state_table
    except ImportError as error:
        raise ComponentMissing(f"{error.msg}") from error
    narrowed = {"app_id": app_id, "tenant": tenant, "table_name": table_name, "table_prefix": table_prefix}
    try:
        options = Options.read({"url": url} | {name: value for name, value in narrowed.items() if value is not None})
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    near = not remote and master.startswith(LOCAL.partition("[")[0])
    if near:
        # Java and Spark's processes inherit it. A remote Spark may run as another user, who has to write here too.
        os.umask(os.umask(_OTHERS) | _OTHERS)
    preflight.check(options, to, against)
    warnings: list[str] = []
    with progress_bar() as progress, failures.in_one_sentence():
        progress("Starting Spark" if not remote else "Connecting", 0, None)
        with spark_session(master=master, remote=remote) as spark:
            source = open_snapshot(
                spark,
                url,
                app_id=app_id,
                tenant=tenant,
                table_name=table_name,
                table_prefix=table_prefix,
                # Other machines can read a copy of the database only in the folder they write the snapshot to.
                directory=None if near else to.resolve(),
            )

            def show(work: Work) -> None:
                progress(work.doing, work.done, work.of)

            taken = take(
                spark,
                source,
                url,
                to,
                app_id=app_id,
                tenant=tenant,
                state_table=state_table(table_name, table_prefix),
                against=against,
                with_report=with_report,
                progress=show,
                warn=warnings.append,
            )
    for warning in warnings:
        click.echo(printing.printable(warning), err=True)
    _show(taken, against, as_json)
    if taken.kept.manifest.findings:
        sys.exit(DOES_NOT_ADD_UP)


def _embedded_url() -> str:
    if not EMBEDDED_FILE.is_file():
        raise click.UsageError(
            f"There is no ./{EMBEDDED_FILE}: name the database with --url, sqlite:///path or postgresql://…."
        )
    return f"sqlite://{quote(str(EMBEDDED_FILE.resolve()))}"


def _show(taken: Taken, against: str | None, as_json: bool) -> None:
    manifest = taken.kept.manifest
    if as_json:
        places = {"folder": str(taken.kept.folder), "report": str(taken.report) if taken.report else None}
        show_json(manifest.to_json() | places)
        _show_findings(manifest)
        return
    console = printing.console()
    console.print(kept(manifest))
    if manifest.changes is not None:
        console.print(changed(manifest))
    elif against:
        click.echo("Not compared: the series has no earlier readable snapshot of the same database and options.")
    click.echo(f"Saved in {taken.kept.folder}")
    if taken.report:
        click.echo(f"Report   {taken.report.as_uri()}")
    _show_findings(manifest)
    if not manifest.findings:
        click.echo("Checks passed.")


def _show_findings(manifest: Manifest) -> None:
    for problem in manifest.problems:
        skipped = f"{problem['count']:,} of {problem['actor_type'] or 'no actor'}: {problem['problem']}"
        click.echo(f"Skipped: {printing.printable(skipped)}", err=True)
    for finding in manifest.findings:
        click.echo(f"Check failed: {printing.printable(finding)}", err=True)
