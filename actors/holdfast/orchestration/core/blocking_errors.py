"""Errors that block an instance because the deployed code cannot continue it, each with its own ``kind``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import NonDeterminism
from holdfast.orchestration.core.box_keys import requested
from holdfast.orchestration.core.history import ActivityScheduled

if TYPE_CHECKING:
    from holdfast.orchestration.core.history import Event


def missing_definition(
    kind: type[Event], name: str, *, expected: str | None, found: str, line: str | None
) -> NonDeterminism:
    """Returns the error for a recorded call whose activity or sub-orchestration is no longer declared."""
    missing, called = ("activity", "activity") if kind is ActivityScheduled else ("child", "sub-orchestration")
    return NonDeterminism(
        f"The {called} {name}, which the instance has called, is no longer declared. Deploy it again.",
        kind=f"missing_{missing}",
        expected=expected,
        found=found,
        line=line,
    )


def undeclared_box(box: str, line: str | None = None) -> NonDeterminism:
    """Returns the error for a mailbox or requests that the code no longer declares; ``line`` is where it uses them."""
    request = requested(box)
    what, name, parameter = ("mailbox", box, "mailboxes") if request is None else ("request", request, "requests")
    return NonDeterminism(
        f"The orchestration no longer declares the {what} {name}, which it uses. "
        f"Declare it again: @app.orchestration({parameter}=[{name!r}]), or give changed code a new version.",
        kind=f"undeclared_{what}",
        expected=f"the {what} {name}",
        found=f"no {what} {name}",
        line=line,
    )


def unfit_value(subject: str, *, expected: str, problem: str, line: str | None) -> NonDeterminism:
    """Returns the error for a recorded value that fitted its declared type before, but does not fit it now.

    ``expected`` is the place of the value in the history, ``problem`` names the field.
    """
    return NonDeterminism(
        f"{subject} ({expected}) no longer fits the type that the code declares for it: {problem}. "
        "Declare a type that takes it, or give changed code a new version.",
        kind="unfit_value",
        expected=expected,
        found=f"it does not fit its type: {problem}",
        line=line,
    )
