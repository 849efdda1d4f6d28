"""Several apps in one server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Command

APP = """
from dapr.actor import Actor, ActorInterface
from holdfast import App

app = App()

@app.actor
class Account(Actor, ActorInterface):
    pass
"""


def test_two_apps_with_actor_classes_of_one_name(holdfast: Command) -> None:
    for module in ("bank", "club"):
        (holdfast.folder / f"{module}.py").write_text(APP)
    ended = holdfast("serve", "bank", "club", "--port", "0")
    assert ended.code == 1
    assert ended.error.strip().splitlines() == [
        "holdfast: Two actor classes are called Account, one in bank and one in club: "
        "rename one of them, because the class name is the actor type."
    ]
