"""The app that every stack serves."""

from __future__ import annotations

from holdfast import App
from tests.support.stacks.actors import ACTORS

app = App()
for actor in ACTORS:
    app.actor(actor)
