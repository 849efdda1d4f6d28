"""``holdfast orchestration list``, ``counts`` and ``bulk`` as people and scripts see them."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_queue import rows

if TYPE_CHECKING:
    from tests.cli.conftest import Command


@pytest.fixture
def prefix(name: str) -> str:
    return name.replace("queue", "lists")


def begin(holdfast: Command, prefix: str, *names: str, options: tuple[str, ...] = ()) -> None:
    for name in names:
        assert holdfast.orchestration("start", "approval", "--instance-id", f"{prefix}-{name}", *options).code == 0


def listed(holdfast: Command, prefix: str, *options: str) -> list[str]:
    answer = holdfast.orchestration("list", "--id-prefix", f"{prefix}-", "--json", *options).json()
    return [one["instance_id"].removeprefix(f"{prefix}-") for one in answer["orchestrations"]]


def wait_until_listed(holdfast: Command, prefix: str, names: list[str], *options: str) -> None:
    # The index is written off the hot path: it may be a moment behind.
    deadline = time.monotonic() + 30
    while (found := listed(holdfast, prefix, *options)) != names:
        assert time.monotonic() < deadline, found


def test_list_selects_and_orders(holdfast: Command, prefix: str) -> None:
    begin(holdfast, prefix, "a", "b", options=("--tag", "customer=acme", "--tag", "env=test"))
    begin(holdfast, prefix, "c", options=("--tag", "customer=acme:1=2"))
    wait_until_listed(holdfast, prefix, ["c", "b", "a"])
    holdfast.orchestration("suspend", f"{prefix}-a")
    wait_until_listed(holdfast, prefix, ["a"], "--status", "suspended")
    assert listed(holdfast, prefix, "--order", "oldest") == ["a", "b", "c"]
    assert listed(holdfast, prefix, "--limit", "2") == ["c", "b"]
    assert listed(holdfast, prefix, "--status", "RUNNING", "--status", "suspended") == ["c", "b", "a"]
    assert listed(holdfast, prefix, "--tag", "customer=acme", "--tag", "env=test") == ["b", "a"]
    assert listed(holdfast, prefix, "--tag", "customer=acme:1=2") == ["c"]
    assert listed(holdfast, prefix, "--name", "approval", "--version", "1", "--started-after", "2020-01-01") == [
        *("c", "b", "a")
    ]
    assert listed(holdfast, prefix, "--started-before", "2020-01-01") == []
    assert listed(holdfast, prefix, "--ended-after", "2020-01-01", "--ended-before", "2999-01-01") == []
    shown = rows(holdfast.orchestration("list", "--id-prefix", f"{prefix}-", "--status", "suspended").output)
    assert [f"{prefix}-a", "approval 1", "SUSPENDED"] in [row[:3] for row in shown]
    assert any(row[-1] == "customer=acme env=test" for row in shown)
    waiting = rows(holdfast.orchestration("list", "--id-prefix", f"{prefix}-a", "--waiting").output)
    assert any(row[-1].startswith("the event approved, since ") for row in waiting)
    for wrong in (("--status", "TIRED"), ("--tag", "customer"), ("--started-after", "soon"), ("--order", "random")):
        assert holdfast.orchestration("list", *wrong).code == 2


def test_list_refreshes_until_ctrl_c(holdfast: Command, prefix: str) -> None:
    begin(holdfast, prefix, "a")
    wait_until_listed(holdfast, prefix, ["a"], "--status", "RUNNING")
    terminal = holdfast.on_terminal(
        *("orchestration", "list", "--id-prefix", f"{prefix}-", "--watch", "--interval", "0.1", "--json")
    )
    terminal.wait_for("RUNNING")
    holdfast.orchestration("raise", f"{prefix}-a", "approved", '"ann"')
    terminal.wait_for("COMPLETED")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 0
    assert json.loads(terminal.shown.splitlines()[0])["orchestrations"][0]["instance_id"] == f"{prefix}-a"


def test_counts(holdfast: Command, prefix: str) -> None:
    begin(holdfast, prefix, "a")
    wait_until_listed(holdfast, prefix, ["a"], "--status", "RUNNING")
    answer: Any = holdfast.orchestration("counts", "--json").json()
    assert answer["by_name"]["approval"]["RUNNING"] >= 1
    shown = rows(holdfast.orchestration("counts", "--name", "approval").output)
    assert shown[0][0] == "orchestration"
    assert [row[0] for row in shown if row[0] in ("approval", "all")] == ["approval", "all"]
    none = holdfast.orchestration("counts", "--name", "nobody")
    assert (none.code, none.error) == (3, "No such instances.\n")


def test_bulk_asks_first_and_acts_on_what_matches(holdfast: Command, prefix: str) -> None:
    begin(holdfast, prefix, "a", "b", options=("--tag", f"batch={prefix}"))
    begin(holdfast, prefix, "c")
    wait_until_listed(holdfast, prefix, ["c", "b", "a"], "--status", "running")
    selected = ("--status", "running", "--tag", f"batch={prefix}")
    tried = holdfast.orchestration("bulk", "cancel", *selected, "--dry-run")
    assert (tried.code, tried.output) == (0, "2 instances selected\n")
    refused = holdfast.orchestration("bulk", "cancel", *selected, typed="n\n")
    assert (refused.code, "cancel 2 instances?" in refused.error) == (1, True)
    done = holdfast.orchestration("bulk", "cancel", *selected, "--reason", "moved", typed="y\n")
    assert (done.code, done.output) == (0, "2 instances cancelled\n")
    ended = holdfast.orchestration("wait", f"{prefix}-a")
    assert (ended.code, ended.error) == (1, f"holdfast: {prefix}-a was cancelled: moved\n")
    wait_until_listed(holdfast, prefix, ["c"], "--status", "running")
    raised = holdfast.orchestration(
        *("bulk", "raise", "approved", '"ann"', "--id-prefix", f"{prefix}-", "--status", "running", "--yes", "--json")
    )
    assert raised.json() == {"matched": 1, "done": 1, "failed": []}
    wait_until_listed(holdfast, prefix, ["c"], "--status", "completed")
    deleted = holdfast.orchestration("bulk", "delete", "--id-prefix", f"{prefix}-", "--yes")
    assert (deleted.code, deleted.output) == (0, "3 instances deleted\n")
    none = holdfast.orchestration("bulk", "delete", "--name", "nobody", "--yes")
    assert (none.code, none.error) == (3, "No such instances.\n")


def test_a_bar_on_a_terminal_while_bulk_acts(holdfast: Command, prefix: str) -> None:
    begin(holdfast, prefix, "a", "b")
    wait_until_listed(holdfast, prefix, ["b", "a"])
    terminal = holdfast.on_terminal("orchestration", "bulk", "cancel", "--id-prefix", f"{prefix}-", "--yes")
    terminal.wait_for("2 instances cancelled")
    assert terminal.end() == 0
    assert "2/2" in terminal.shown


def test_bulk_names_the_instances_for_which_it_cannot_be_done(holdfast: Command, prefix: str) -> None:
    begin(holdfast, prefix, "a")
    wait_until_listed(holdfast, prefix, ["a"])
    refused = holdfast.orchestration("bulk", "delete", "--id-prefix", f"{prefix}-", "--yes")
    assert (refused.code, refused.output) == (1, "0 instances deleted\n")
    assert refused.error == f"holdfast: not deleted: {prefix}-a\n"


def test_bulk_needs_a_selection(holdfast: Command) -> None:
    unselected = holdfast.orchestration("bulk", "cancel", "--yes")
    assert (unselected.code, "--all" in unselected.error) == (2, True)
    assert holdfast.orchestration("bulk", "resume", "--all", "--dry-run").code in (0, 3)
