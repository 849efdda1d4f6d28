"""``holdfast worker``: the activities of apps, run beside no server."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import option
from holdfast.cli.serve import load_app
from holdfast.errors import HoldfastError, SettingsError
from holdfast.logs import FORMATS, LEVELS, set_up_logging

if TYPE_CHECKING:
    from holdfast.client.connection import Connection
    from holdfast.orchestration.registry import Registry


@click.command(short_help="Run activities for a server elsewhere.")
@click.argument("apps", nargs=-1, required=True, metavar="MODULE:APP...")
@option("--url", default="http://127.0.0.1:8080", help="Where the server is.")
@option("--token", help="What the server asks for, if it does.")
@option("--tenant", help="Whose activities are run; a token may say so itself.")
@option("--slots", type=click.IntRange(1, 1000), default=50, help="How many activities of each queue run at once.")
@option("--timeout", type=click.FloatRange(0.1), default=30.0, help="Seconds one request may take.")
@option("--log-format", type=click.Choice(FORMATS), default="text", help="Lines for people, or JSON.")
@option("--log-level", type=click.Choice(LEVELS), default="info", help="How much is logged.")
def worker(
    apps: tuple[str, ...],
    url: str,
    token: str | None,
    tenant: str | None,
    slots: int,
    timeout: float,
    log_format: str,
    log_level: str,
) -> None:
    """Run the activities of the apps named by MODULE:APP for the server at --url, which need not run any itself
    ('holdfast serve --no-worker'). As many workers as you like share the work.

    SIGTERM and Ctrl-C end it in order: it takes no more, gives back what it has not finished, and exits with 0.
    """
    # What working needs is heavy; the other commands start without it.
    import uvloop

    from holdfast.client.connection import Connection
    from holdfast.orchestration.registry import Registry
    from holdfast.worker.threads import leave_threads

    set_up_logging(log_format, log_level)
    try:
        registry = Registry.of(load_app(name).registry for name in apps)
    except ValueError as error:
        raise SettingsError(f"These apps do not go together: {error}.") from error
    if not registry.activities:
        raise SettingsError(f"There are no activities in {', '.join(apps)}, so there is nothing to work on.")
    connection = Connection(url, token=token, tenant=tenant, timeout=timeout, retries=3)
    uvloop.run(_work(registry, connection, url, slots))
    leave_threads()


async def _work(registry: Registry, connection: Connection, url: str, slots: int) -> None:
    from holdfast.worker.remote import Remote
    from holdfast.worker.worker import Worker

    await connection.open()
    working = asyncio.create_task(Worker(Remote(connection), registry, slots=slots, gives_up=True).run(), name="worker")
    stopping = False

    def stop(number: int) -> None:
        nonlocal stopping
        # A second Ctrl-C does not wait for anything to be given back.
        if not stopping or number == signal.SIGINT:
            working.cancel()
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    queues = ", ".join(sorted({activity.queue for activity in registry.activities}))
    click.echo(f"Working for {url} on {queues}, {slots} activities of each at once")
    try:
        await working
    except asyncio.CancelledError:
        if not stopping:
            raise
    except BaseExceptionGroup as group:
        raise (_first_refusal(group) or group) from None
    finally:
        await connection.close()


def _first_refusal(group: BaseExceptionGroup) -> HoldfastError | None:
    for error in group.exceptions:
        found = _first_refusal(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, HoldfastError):
            return found
    return None
