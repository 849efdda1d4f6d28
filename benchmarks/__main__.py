"""``python -m benchmarks [NAME ...] [--quick] [--json FILE]``: all targets in one run, one table at the end."""

from __future__ import annotations

import datetime
import json
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

import click
import uvloop
from rich.console import Console

from benchmarks import (
    attacks,
    durable_turns,
    idempotency,
    idle_memory,
    instance_lists,
    machine,
    noop_calls,
    orchestrations,
    queue_calls,
    queue_delayed,
    queue_depth,
    spark,
    steady_load,
)
from benchmarks.bench import Bench, Lab
from benchmarks.load import CallFailed
from benchmarks.measure import FULL, QUICK
from benchmarks.report import Row, summary, table
from benchmarks.stacks import Stacks
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Sequence

BENCHES: dict[str, Bench] = {
    "noop-calls": noop_calls,
    "durable-turns": durable_turns,
    "idle-memory": idle_memory,
    "queue-calls": queue_calls,
    "queue-depth": queue_depth,
    "queue-delayed": queue_delayed,
    "instance-lists": instance_lists,
    "steady-load": steady_load,
    "orchestrations": orchestrations,
    "idempotency": idempotency,
    "attacks": attacks,
    "spark": spark,
}

# Of the machine's cores, and of the median: beyond these a run is not to be relied on.
_BUSY = 0.5
_UNSTEADY = 0.25


@click.command(epilog="A missed floor is reported and is no error; a benchmark that could not be run ends with 1.")
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHES)), metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="Short rounds, to see that all works; the figures are rough.")
@click.option("--minutes", type=float, default=5.0, show_default=True, help="How long steady-load runs.")
@click.option(
    "--instances",
    type=click.IntRange(1_000),
    default=100_000,
    show_default=True,
    help="How many instances instance-lists has.",
)
@click.option("--json", "json_file", type=click.File("w"), metavar="FILE", help="Write all samples there too.")
@click.option("--list", "list_names", is_flag=True, help="Show the benchmarks there are.")
def main(
    names: tuple[str, ...],
    quick: bool,
    minutes: float,
    instances: int,
    json_file: TextIO | None,
    list_names: bool,
) -> None:
    """Measure Holdfast beside its peers on this machine (all benchmarks, or those named)."""
    # Not the 80 columns that a file or a pipe is given otherwise: the table would be all wrapped.
    console = Console(width=None if sys.stdout.isatty() else 130)
    if list_names:
        for name, bench in BENCHES.items():
            console.print(f"{name:<15}{(bench.__doc__ or '').splitlines()[0]}", highlight=False)
        return
    began = datetime.datetime.now(datetime.UTC)
    load = machine.load()
    about = {"date": f"{began:%Y-%m-%d %H:%M} UTC", **machine.facts(), "load before": f"{load:.1f}"}
    size = {"quick": quick, "minutes": minutes, "instances": instances}
    rows, failures = uvloop.run(_run(list(dict.fromkeys(names)) or list(BENCHES), size, console))
    _print(console, rows, about, _doubts(rows, quick=quick, load=load))
    if json_file:
        json.dump({"about": about, "quick": quick, "rows": [row.as_json() for row in rows]}, json_file, indent=2)
    for failure in failures:
        console.print(failure, style="bold red", highlight=False)
    sys.exit(bool(failures))


async def _run(names: Sequence[str], size: dict[str, Any], console: Console) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    failures: list[str] = []
    async with Stacks() as stacks:
        for name in names:
            console.print(f"{name}: {(BENCHES[name].__doc__ or '').splitlines()[0]}", highlight=False)
            with console.status("starting") as status:
                lab = Lab(stacks, QUICK if size["quick"] else FULL, tell=status.update, **size)
                try:
                    rows += await BENCHES[name].run(lab)
                except (HoldfastError, CallFailed, OSError) as error:
                    # The others have something to say all the same.
                    failures.append(f"{name} could not be measured: {error or 'it took too long'}")
    return rows, failures


def _print(console: Console, rows: Sequence[Row], about: dict[str, str], doubts: Sequence[str]) -> None:
    if not rows:
        return
    console.print(table(rows))
    console.print(summary(rows), style="bold")
    for doubt in doubts:
        console.print(doubt, style="yellow", highlight=False)
    share = max(figure.generator_share for row in rows for figure in (row.ours, row.peer))
    if share:
        console.print(f"The load generator took {share:.0%} of one core at most.", highlight=False)
    console.print(". ".join(f"{what}: {fact}" for what, fact in about.items()) + ".", highlight=False, style="dim")


def _doubts(rows: Sequence[Row], *, quick: bool, load: float) -> list[str]:
    """Why the figures should not be trusted, if there is a reason."""
    doubts = []
    if quick:
        doubts.append("This was a quick run: its figures are rough.")
    if load > _BUSY * (os.cpu_count() or 1):
        doubts.append(
            f"The machine was busy with other work before the run (load {load:.1f}): repeat it when it is quiet."
        )
    if unsteady := [row.work for row in rows if max(row.ours.spread, row.peer.spread) > _UNSTEADY]:
        doubts.append(f"{len(unsteady)} of {len(rows)} lines spread by more than {_UNSTEADY:.0%} between rounds.")
    return doubts


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
