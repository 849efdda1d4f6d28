"""Detects other apps that host actors of our types.

Placement distributes a type over all apps that register it, whatever their app-ids: calls then reach the other app,
which has other state. daprd does not expose its placement table, but it passes on the headers of an actor's reply, so
each app adds its app-id to its replies.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

SIGNATURE_HEADER = "holdfast-app-id"


class AppIdConflicts:
    """The conflicting apps found so far."""

    def __init__(self) -> None:
        #: Our own app-id, once daprd has reported it.
        self.app_id = ""
        self._met: set[tuple[str, str]] = set()

    def answered(self, actor_type: str, signature: str | None) -> None:
        """Checks the app-id in the reply of an actor of one of our types."""
        if signature == self.app_id or signature == "" or not self.app_id:
            return
        other = signature or "not a Holdfast app"
        if (actor_type, other) not in self._met:
            self._met.add((actor_type, other))
            log.error(
                "ANOTHER APP HAS %s ACTORS TOO: %s. Calls reach either app, and each has its own state. "
                "Within one Dapr namespace only one app-id may host them; this one is %s.",
                actor_type,
                other,
                self.app_id,
            )
