"""``holdfast orchestration check``: running instances against code that is not deployed yet."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client
from tests.cli import deployed
from tests.cli.conftest import Command
from tests.support.server import Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.cli.conftest import Ended

RUNNING = {"a-1": "approval", "a-2": "approval", "a-3": "approval", "d-1": "delivery", "d-2": "delivery"}

_numbers = itertools.count()


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server whose instances all wait for an event."""
    folder = tmp_path_factory.mktemp("deployed")
    shutil.copy(Path(deployed.__file__), folder)
    async with Server(folder, "deployed:app") as server:
        async with Client(server.url) as client:
            for instance_id, name in RUNNING.items():
                await client.start(name, "ann" if name == "approval" else None, instance_id=instance_id)
            await (await client.start("reminder", "ann")).result(timeout=30)

            async def all_wait() -> bool:
                listed = [found.instance_id async for found in client.orchestrations(status="RUNNING")]
                awaited = [(await client.orchestration(run).status()).waiting_for for run in listed]
                return [one.kind for each in awaited for one in each] == ["event"] * len(RUNNING)

            await eventually(all_wait)
        yield server


@pytest.fixture
def check(running: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Checks the first code with some changes of its text, in this process."""
    monkeypatch.syspath_prepend(tmp_path)
    module = f"changed_{next(_numbers)}"

    def check(*options: str, **changes: str) -> Ended:
        text = Path(deployed.__file__).read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / f"{module}.py").write_text(text)
        sys.modules.pop(module, None)
        return Command(running.url, tmp_path).orchestration("check", f"{module}:app", *options)

    return check


def blocked(ended: Ended) -> dict[str, Any]:
    return {found["instance_id"]: found for found in ended.json()["blocked"]}


def test_the_same_code_fits(check: Callable[..., Ended]) -> None:
    ended = check()
    assert (ended.code, ended.output, ended.error) == (
        0,
        "5 running instances checked: the code fits all of them.\n",
        "",
    )
    assert check("--json").json() == {"instances": 5, "checked": 5, "blocked": [], "unchecked": {}}


def test_each_instance_that_the_code_would_block_is_named_with_the_reason(check: Callable[..., Ended]) -> None:
    changes = {"greeting = await ctx.call(greet, name)": "greeting = await ctx.call('welcome', name)"}
    ended = check("--json", **changes)
    found = blocked(ended)
    assert (ended.code, found.keys()) == (1, {"a-1", "a-2", "a-3"})
    one = found["a-1"]
    assert (one["name"], one["version"], one["status"], one["kind"]) == ("approval", "1", "RUNNING", "non_determinism")
    assert (one["expected"], one["found"]) == ("event 2, ActivityScheduled (greet)", "ActivityScheduled (welcome)")
    assert one["line"].endswith("in approval: greeting = await ctx.call('welcome', name)")
    shown = check(**changes)
    assert shown.code == 1
    lines = shown.output.splitlines()
    assert lines[0] == "approval, version 1: 3 instances would be BLOCKED (non_determinism)"
    assert lines[2:4] == [
        "  expected  event 2, ActivityScheduled (greet)",
        "  found     ActivityScheduled (welcome)",
    ]
    assert lines[4].endswith("in approval: greeting = await ctx.call('welcome', name)")
    assert lines[5:] == ["  instances a-1, a-2, a-3", "5 running instances checked: 3 would be BLOCKED."]


def test_a_recorded_value_that_no_longer_fits_is_named_with_its_field(check: Callable[..., Ended]) -> None:
    changes = {
        "from holdfast import App, Context": "from pydantic import BaseModel\nfrom holdfast import App, Context",
        "@app.activity": "class Greeting(BaseModel):\n    text: str\n\n@app.activity",
        "async def greet(name: str) -> str:": "async def greet(name: str) -> Greeting:",
    }
    found = blocked(check("--json", **changes))
    assert found.keys() == {"a-1", "a-2", "a-3"}
    one = found["a-1"]
    assert (one["kind"], one["expected"]) == ("unfit_value", "event 3, ActivityCompleted (greet)")
    assert one["found"].startswith("it does not fit its type: Input should be ")
    assert one["line"].endswith("in approval: greeting = await ctx.call(greet, name)")


def test_the_running_instances_do_not_notice(check: Callable[..., Ended], running: Server, tmp_path: Path) -> None:
    assert check(**{'await ctx.event("approved")': 'await ctx.call(greet, "again")'}).code == 1
    holdfast = Command(running.url, tmp_path)
    history = holdfast.orchestration("history", "a-1", "--json").json()["events"]
    assert [event["type"] for event in history] == [
        *("OrchestrationStarted", "ActivityScheduled", "ActivityCompleted", "EventSubscribed"),
    ]
    assert holdfast.orchestration("status", "a-1", "--json").json()["status"] == "RUNNING"


def test_one_orchestration_and_a_sample(check: Callable[..., Ended]) -> None:
    changes = {"greeting = await ctx.call(greet, name)": "greeting = ''", '"delivered")\n': '"arrived")\n'}
    assert blocked(check("--json", "--name", "delivery", **changes)).keys() == {"d-1", "d-2"}
    sampled = check("--json", "--sample", "1", **changes).json()
    assert (sampled["instances"], sampled["checked"]) == (5, 2)
    assert {found["name"] for found in sampled["blocked"]} == {"approval", "delivery"}
    assert check("--sample", "2").output == "4 of 5 running instances checked: the code fits all of them.\n"


def test_code_that_never_yields_is_stopped(check: Callable[..., Ended]) -> None:
    ended = check(
        "--json",
        "--name",
        "delivery",
        **{'return "delivered"': "pass", 'await ctx.event("delivered")': "while True: pass"},
    )
    assert {found["kind"] for found in blocked(ended).values()} == {"never_yields"}


def test_what_the_code_prints_does_not_come_between(check: Callable[..., Ended]) -> None:
    ended = check(
        "--json",
        **{
            "app = App()": 'app = App()\nprint("loading")',
            "greeting = await": 'print("greeting")\n    greeting = await',
        },
    )
    assert json.loads(ended.output)["checked"] == 5
    assert ended.error == "loading\n" + "greeting\n" * 3


def test_wrong_usage(check: Callable[..., Ended], running: Server, tmp_path: Path) -> None:
    holdfast = Command(running.url, tmp_path)
    assert holdfast.orchestration("check").code == 2
    assert holdfast.orchestration("check", "no_such_module:app").code == 2
    assert check("--sample", "0").code == 2
    broken = check(**{"app = App()": "app = App()\nraise RuntimeError('broken')"})
    assert broken.code == 2
    assert "RuntimeError: broken" in broken.error
