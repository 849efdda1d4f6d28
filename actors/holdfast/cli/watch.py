"""Repeats a call and shows each response, until Ctrl-C."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from holdfast.cli import printing
from holdfast.cli.options import option
from holdfast.cli.session import show_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from holdfast.client.api.queues import Answer

interval_option = option(
    "--interval", type=click.FloatRange(0.1), default=1.0, help="Seconds between two refreshes of --watch."
)


def watch(
    look: Callable[[], Answer],
    show: Callable[[Answer], RenderableType],
    *,
    as_json: bool,
    interval: float,
    over: Callable[[Answer], bool] = lambda _: False,
) -> None:
    """Shows ``look()`` every ``interval`` seconds until ``over``, or Ctrl-C, which is not an error.

    Redraws the screen of a terminal; elsewhere prints one response below the other, as JSON one per line.
    """
    from rich.live import Live

    console = printing.console()
    live = Live(console=console, auto_refresh=False, screen=True) if console.is_terminal and not as_json else None
    answer: Answer | None = None
    try:
        with live or nullcontext():
            while answer is None or not over(answer):
                if answer is not None:
                    time.sleep(interval)
                answer = look()
                if as_json:
                    show_json(answer)
                elif live is not None:
                    live.update(show(answer), refresh=True)
                else:
                    console.print(show(answer))
    except KeyboardInterrupt:
        return
    if live is not None and answer is not None:
        # Leaving the alternate screen removes its content.
        console.print(show(answer))
