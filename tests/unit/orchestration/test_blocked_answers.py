"""How the client and the command line show an instance that is BLOCKED."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from holdfast.cli import orchestration_tables
from holdfast.client import BlockReason
from holdfast.client.run_models import status

ANSWER: dict[str, Any] = {
    "instance_id": "order-17",
    "name": "checkout",
    "version": "1",
    "status": "BLOCKED",
    "input": None,
    "output": None,
    "error": None,
    "custom_status": None,
    "execution_id": 1,
    "events": 3,
    "created_at": "2026-02-28T16:13:35.123Z",
    "updated_at": "2026-02-28T16:13:35.456Z",
    "ended_at": None,
    "blocked": {
        "kind": "non_determinism",
        "message": "The code does not do what its history says it did.",
        "expected": "event 2, ActivityScheduled (charge)",
        "found": "nothing: it waits",
        "line": None,
        "since": "2026-02-28T16:13:35.456Z",
        "suspended": True,
    },
}


def test_the_client_gives_the_reason() -> None:
    found = status(ANSWER)
    assert not found.ended
    assert found.blocked == BlockReason(
        kind="non_determinism",
        message="The code does not do what its history says it did.",
        expected="event 2, ActivityScheduled (charge)",
        found="nothing: it waits",
        line=None,
        since=datetime(2026, 2, 28, 16, 13, 35, 456000, UTC),
        suspended=True,
    )
    assert status({key: value for key, value in ANSWER.items() if key != "blocked"}).blocked is None


def test_the_command_line_shows_the_reason() -> None:
    shown = io.StringIO()
    Console(file=shown, width=120).print(orchestration_tables.status(ANSWER))
    for text in ("BLOCKED", "does not do what its history says", "event 2, ActivityScheduled (charge)", "it waits"):
        assert text in shown.getvalue()
    assert orchestration_tables.in_words(ANSWER) == (
        "order-17 has not ended yet: it is BLOCKED. The code does not do what its history says it did."
    )
