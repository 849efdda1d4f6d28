"""Other apps that have actors of our types.

Placement spreads a type over all apps that register it, whatever their app-ids: calls then land in the other app, which
keeps other state. daprd shows its placement table to nobody, but it hands on the headers of an actor's answer, so each
app signs what it answers.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

SIGNATURE_HEADER = "holdfast-app-id"


class Neighbours:
    """Those that were met."""

    def __init__(self) -> None:
        #: Our own app-id, when daprd has said it.
        self.app_id = ""
        self._met: set[tuple[str, str]] = set()

    def answered(self, actor_type: str, signature: str | None) -> None:
        """A call to an actor of one of our types came back with this signature."""
        if signature == self.app_id or signature == "" or not self.app_id:
            return
        other = signature or "not a Holdfast app"
        if (actor_type, other) not in self._met:
            self._met.add((actor_type, other))
            log.error(
                "ANOTHER APP HAS %s ACTORS TOO: %s. Calls to them land in either app, and each has state of its own. "
                "Within one Dapr namespace let only one app-id have them; this one is %s.",
                actor_type,
                other,
                self.app_id,
            )
