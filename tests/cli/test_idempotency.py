"""``holdfast idempotency`` as people and scripts see it."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

from tests.cli.test_queue import rows

if TYPE_CHECKING:
    from tests.cli.conftest import Command

SCRIPT = """
run_once() {
    owner=$("$HOLDFAST" idempotency begin "$KEY") || { [ $? = 3 ] && echo "has run" && return 0; return 1; }
    echo "the effect"
    "$HOLDFAST" idempotency commit "$KEY" '{"sent": 1}' --owner "$owner"
}
run_once && run_once
"""


def test_a_script_runs_something_once(holdfast: Command, name: str) -> None:
    environment = holdfast.environment | {"HOLDFAST": holdfast.path, "KEY": name}
    ran = subprocess.run(
        ["sh", "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=60, cwd=holdfast.folder
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["the effect", "Recorded as done", "has run"]


def test_from_begin_to_commit(holdfast: Command, name: str) -> None:
    assert holdfast.idempotency("show", name).code == 3
    begun = holdfast.idempotency("begin", name, "--lease", "60")
    owner = begun.output.strip()
    assert (begun.code, begun.error) == (0, "")
    other = holdfast.idempotency("begin", name)
    assert (other.code, other.output) == (4, "")
    assert "Another owner is running this." in other.error
    assert holdfast.idempotency("renew", name, "--owner", owner, "--lease", "90").output.startswith("Leased until ")
    shown = dict(rows(holdfast.idempotency("show", name).output))
    assert (shown["status"], shown["owner"], shown["attempts"]) == ("IN_PROGRESS", owner, "1")
    assert holdfast.idempotency("commit", name, '{"invoice": 17}', "--owner", "somebody").code == 1
    assert holdfast.idempotency("commit", name, '{"invoice": 17}', "--owner", owner).code == 0
    done = holdfast.idempotency("begin", name)
    assert (done.code, done.output, done.error) == (3, '{"invoice": 17}\n', "It has run already. Its result:\n")
    shown = dict(rows(holdfast.idempotency("show", name).output))
    assert (shown["status"], shown["result"]) == ("SUCCESS", '{"invoice": 17}')


def test_a_failure_lets_the_next_one_run(holdfast: Command, name: str) -> None:
    assert holdfast.idempotency("begin", name, "--owner", "a").output == "a\n"
    failed = holdfast.idempotency("fail", name, "--owner", "a", "--error", "no \x1b[31mconnection")
    assert (failed.code, failed.output) == (0, "Recorded as failed\n")
    shown = dict(rows(holdfast.idempotency("show", name).output))
    assert (shown["status"], shown["last error"]) == ("FAILURE", "no \\u001b[31mconnection")
    assert holdfast.idempotency("begin", name, "--json").json()["attempt"] == 2


def test_keys_of_tenants_are_apart(holdfast: Command, name: str) -> None:
    assert holdfast.idempotency("begin", "../a||b", "--for-tenant", name, "--owner", "a").code == 0
    assert holdfast.idempotency("begin", "../a||b", "--for-tenant", f"{name}-2", "--owner", "b").code == 0
    for tenant, owner in ((name, "a"), (f"{name}-2", "b")):
        assert holdfast.idempotency("show", "../a||b", "--for-tenant", tenant, "--json").json()["owner"] == owner


def test_it_is_forgotten_after_its_retention(holdfast: Command, name: str) -> None:
    holdfast.idempotency("begin", name, "--owner", "a")
    holdfast.idempotency("commit", name, "--owner", "a", "--retention", "1")
    until = time.monotonic() + 30
    while holdfast.idempotency("show", name).code == 0:
        assert time.monotonic() < until


def test_json_is_the_answer_of_the_server(holdfast: Command, name: str) -> None:
    begun = holdfast.idempotency("begin", name, "--json").json()
    assert begun.keys() == {"outcome", "owner", "lease_expires_at", "attempt"}
    refused = holdfast.idempotency("commit", name, "--owner", "x", "--json")
    assert (refused.code, refused.output) == (1, "")
    assert '"error_code":"LEASE_LOST"' in refused.error


def test_what_is_wrong_is_exit_code_2(holdfast: Command, name: str) -> None:
    for wrong in (
        ("begin", name, "--lease", "0"),
        ("begin", "x" * 1025),
        ("begin", name, "--for-tenant", "a/b"),
        ("commit", name),
        ("commit", name, "{oops", "--owner", "a"),
    ):
        assert holdfast.idempotency(*wrong).code == 2, wrong


def test_watching_shows_what_changes(holdfast: Command, name: str) -> None:
    holdfast.idempotency("begin", name, "--owner", "a")
    screen = holdfast.on_terminal("idempotency", "show", name, "--watch", "--interval", "0.1")
    screen.wait_for("IN_PROGRESS")
    holdfast.idempotency("commit", name, "--owner", "a")
    screen.wait_for("SUCCESS")
    screen.process.send_signal(signal.SIGINT)
    assert screen.end() == 0
