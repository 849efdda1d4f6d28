"""Whether a save is committed where it is asked for, or by another thread.

To hand it over costs two wake-ups of a thread, which can be as much as the commit. To commit it on the event loop's own
thread holds up everybody meanwhile, and saves that come together are not one transaction any more. So it is done where
saves come one at a time, and commits are short: now and then some are handed over to see whether that is still so.
"""

from __future__ import annotations

# How many are handed over to see, and how many of those may have met another for saves to count as single.
LOOK = 16
MEETINGS = 4
# How many are then committed here before the next look, unless so many had to be handed over meanwhile.
HERE = 100
DISTURBED = 25
# How long they may take on average, there and back, for commits to count as short, in seconds.
SHORT = 0.002
# One that took longer here has held up everybody: so many are handed over before the next look.
LONG = 0.01
AVOID = 1000


class Pace:
    def __init__(self) -> None:
        self._here = 0
        self._disturbed = 0
        self._avoided = 0
        self._seen = 0
        self._met = 0
        self._seconds = 0.0

    def stays(self) -> bool:
        """Whether the next one is committed here."""
        if not self._here:
            return False
        self._here -= 1
        return True

    def stayed(self, seconds: float) -> None:
        """One that was committed here took so long."""
        if seconds > LONG:
            self._here = 0
            self._avoided = AVOID

    def failed(self) -> None:
        """One could not be committed here."""
        self.stayed(float("inf"))

    def handed_over(self, seconds: float, *, met: bool) -> None:
        """One took so long on its way there and back, and met another or not."""
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
