"""Decides whether a save is committed inline on the event loop, or by the writer thread.

A handoff to the writer costs two thread wake-ups, which can be as much as the commit itself. An inline commit blocks
the event loop, and saves that overlap are not one transaction any more. So saves are committed inline while they come
one at a time and commits are short; from time to time some are handed off to measure whether that still holds.
"""

from __future__ import annotations

# The number of handoffs in a measurement, and how many of them may overlap with another save.
LOOK = 16
MEETINGS = 4
# The number of inline commits until the next measurement, unless this many handoffs came between.
HERE = 100
DISTURBED = 25
# The longest average handoff, in seconds, for which commits count as short.
SHORT = 0.002
# After an inline commit that took longer, in seconds, this many saves are handed off before the next measurement.
LONG = 0.01
AVOID = 1000


class InlineCommitPolicy:
    def __init__(self) -> None:
        self._here = 0
        self._disturbed = 0
        self._avoided = 0
        self._seen = 0
        self._met = 0
        self._seconds = 0.0

    def commit_inline(self) -> bool:
        """Returns whether to commit the next save inline."""
        if not self._here:
            return False
        self._here -= 1
        return True

    def record_inline(self, seconds: float) -> None:
        """Records the duration of an inline commit."""
        if seconds > LONG:
            self._here = 0
            self._avoided = AVOID

    def failed(self) -> None:
        """Records that an inline commit failed."""
        self.record_inline(float("inf"))

    def record_handoff(self, seconds: float, *, met: bool) -> None:
        """Records the duration of a handoff, and whether it overlapped with another save."""
        if self._here:
            self._disturbed += 1
            if self._disturbed > DISTURBED:
                self._here = 0
            return
        if self._avoided:
            self._avoided -= 1
            return
        self._seen += 1
        self._met += met
        self._seconds += seconds
        if self._seen == LOOK:
            if self._met <= MEETINGS and self._seconds <= LOOK * SHORT:
                self._here, self._disturbed = HERE, 0
            self._seen = self._met = 0
            self._seconds = 0.0
