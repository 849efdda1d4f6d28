"""For all tests."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background has them, and all they start, ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
