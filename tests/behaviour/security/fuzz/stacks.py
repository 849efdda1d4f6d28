"""Where the event loop's thread was while the event loop was held, for the log of a server that is fuzzed."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from types import CodeType

SAMPLE_SECONDS = 0.005
_FRAMES = 10
_SHOWN_STACKS = 3


class StackSampler:
    """A thread that samples the stack of the main thread, and a log filter that adds the samples to a warning."""

    def __init__(self) -> None:
        self._thread_id = threading.main_thread().ident
        self._samples: deque[tuple[float, tuple[tuple[CodeType, int], ...]]] = deque(maxlen=2000)

    def start(self, logger: logging.Logger) -> None:
        """Samples from now on, and adds the stacks to every warning of this logger."""
        logger.addFilter(self._explain)
        threading.Thread(target=self._run, name="stack sampler", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(SAMPLE_SECONDS)
            frame = sys._current_frames().get(self._thread_id or 0)
            stack = []
            while frame is not None and len(stack) < _FRAMES:
                stack.append((frame.f_code, frame.f_lineno))
                frame = frame.f_back
            self._samples.append((time.perf_counter(), tuple(stack)))

    def _explain(self, record: logging.LogRecord) -> bool:
        """The warning's only argument is how long the event loop was held, in milliseconds."""
        held_ms = record.args[0] if isinstance(record.args, tuple) and record.args else 0.0
        since = time.perf_counter() - float(str(held_ms)) / 1000
        stacks = Counter(stack for at, stack in list(self._samples) if at >= since)
        shown = "; ".join(f"{count} samples: {_written(stack)}" for stack, count in stacks.most_common(_SHOWN_STACKS))
        record.msg = f"{record.msg} ({shown.replace('%', '%%')})"
        return True


def _written(stack: tuple[tuple[CodeType, int], ...]) -> str:
    """Innermost first."""
    places = (f"{'/'.join(code.co_filename.split('/')[-2:])}:{line} {code.co_name}" for code, line in stack)
    return " < ".join(places)
