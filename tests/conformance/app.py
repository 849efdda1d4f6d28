"""The app that every stack serves."""

from __future__ import annotations

from conformance.actors import ACTORS
from holdfast import App

app = App()
for actor in ACTORS:
    app.actor(actor)
