"""``holdfast snapshot``: everything at one moment, as Parquet, audited, with a report."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.remote import show_json
from holdfast.cli.snapshot_tables import changed, kept
from holdfast.errors import ComponentMissing, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.spark.manifest import Manifest
    from holdfast.spark.pipeline import Taken, Work

DOES_NOT_ADD_UP = 3
EMBEDDED_FILE = Path("holdfast-data") / "holdfast.db"

_EXIT_CODES = """\b
Exit codes:
  0  kept, and it adds up
  1  failed: nothing was kept
  2  wrong usage
  3  kept, but something does not add up: each finding is a sentence, there and in the manifest and the report
"""


@click.command(short_help="Keep everything at one moment as Parquet, with a report.", epilog=_EXIT_CODES)
@option(
    "--url",
    # HOLDFAST_URL is where the server is.
    envvar="HOLDFAST_STORE_URL",
    show_default=f"the embedded server's file in ./{EMBEDDED_FILE.parent}",
    help="The state store's database: sqlite:///path or postgresql://…; 'holdfast serve' prints its own.",
)
@option(
    "--to",
    envvar="HOLDFAST_SNAPSHOTS",
    type=click.Path(file_okay=False, path_type=Path),
    default="./holdfast-snapshots",
    help="Folder of the series; each snapshot gets a folder of its own in it.",
)
@option("--against", metavar="EARLIER", help="Say what changed since an earlier one: its folder, or 'latest'.")
@option("--report/--no-report", "with_report", default=True, help="Draw a page to look at.")
@option("--app-id", help="Only this app's, where several share the table.", show_default="all")
@option("--tenant", help="Only this tenant's.", show_default="all")
@option("--table-prefix", help="The prefix of Dapr's table, where its component sets one.")
@option("--table-name", help="The name of Dapr's table, where its component sets one.")
@option("--master", default="local[*]", help="Where Spark runs.")
@option("--remote", metavar="sc://…", help="Spark Connect, instead of --master. Both sides must see the folder --to.")
@option("--json", "as_json", is_flag=True, help="For programs: the manifest as a JSON object.")
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
    """Keep every queue, item, lock, dead letter, instance, event and idempotency record of one moment, as Parquet.

    The servers go on working meanwhile. What is kept is audited: counts against items and locks, completions against
    what was asked for, dead letters against where they came from. Snapshots of one folder are a series: the report
    shows how it went, and holdfast.spark.series reads their tables over time.
    """
    url = url or _embedded_url()
    if url.startswith(("http://", "https://")):
        # Not repeated: there may be a password in it.
        raise click.UsageError(
            "What --url says is a server; it names the state store's database, sqlite:///path or postgresql://…."
        )
    try:
        from holdfast.spark import failures, preflight
        from holdfast.spark.options import Options, state_table
        from holdfast.spark.pipeline import take
        from holdfast.spark.session import LOCAL, spark_session
        from holdfast.spark.snapshots import snapshot as open_snapshot
    except ImportError as error:
        raise ComponentMissing(f"{error.msg}") from error
    narrowed = {"app_id": app_id, "tenant": tenant, "table_name": table_name, "table_prefix": table_prefix}
    try:
        options = Options.read({"url": url} | {name: value for name, value in narrowed.items() if value is not None})
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    preflight.check(options, to, against)
    warnings: list[str] = []
    with _progress() as progress, failures.in_one_sentence():
        progress("Starting Spark" if not remote else "Connecting", 0, None)
        with spark_session(master=master, remote=remote) as spark:
            near = not remote and master.startswith(LOCAL.partition("[")[0])
            source = open_snapshot(
                spark,
                url,
                app_id=app_id,
                tenant=tenant,
                table_name=table_name,
                table_prefix=table_prefix,
                # Other machines can read a copy only where they can write the snapshot.
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
            f"Which database? Say so with --url, sqlite:///path or postgresql://…: there is no ./{EMBEDDED_FILE} here."
        )
    return f"sqlite://{quote(str(EMBEDDED_FILE.resolve()))}"


def _show(taken: Taken, against: str | None, as_json: bool) -> None:
    manifest = taken.kept.manifest
    if as_json:
        places = {"folder": str(taken.kept.folder), "report": str(taken.report) if taken.report else None}
        show_json(manifest.to_json() | places)
        _tell(manifest)
        return
    console = printing.console()
    console.print(kept(manifest))
    if manifest.changes is not None:
        console.print(changed(manifest))
    elif against:
        click.echo("The series has no earlier one of its kind that can be read: there is nothing to compare it with.")
    click.echo(f"Kept in {taken.kept.folder}")
    if taken.report:
        click.echo(f"Report  {taken.report.as_uri()}")
    _tell(manifest)
    if not manifest.findings:
        click.echo("It adds up.")


def _tell(manifest: Manifest) -> None:
    for problem in manifest.problems:
        passed_over = f"{problem['count']:,} of {problem['actor_type'] or 'no actor'}: {problem['problem']}"
        click.echo(f"Passed over: {printing.printable(passed_over)}", err=True)
    for finding in manifest.findings:
        click.echo(f"Does not add up: {printing.printable(finding)}", err=True)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar on the terminal; elsewhere nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description:<28}"), BarColumn(), TimeElapsedColumn())
    # By a way of its own: while Java starts, what goes to standard error is not shown.
    with (
        os.fdopen(os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2), "w", encoding="utf-8") as terminal,
        Progress(*columns, console=Console(file=terminal), disable=not terminal.isatty(), transient=True) as bar,
    ):
        task = bar.add_task("", total=None)

        def report(doing: str, done: int, of: int | None) -> None:
            bar.update(task, description=doing, completed=done, total=of)

        yield report
