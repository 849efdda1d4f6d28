"""Logging as text or JSON lines. Payloads are never logged."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

# Control characters, escaped as Python escapes them.
_ESCAPED = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
# Bounds the memory of RepeatFilter: the number of distinct lines it remembers.
_MOST_REMEMBERED = 1000


def set_up_logging(log_format: str, level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if log_format == "json" else _TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # These libraries log each connection at INFO.
    for noisy in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    # The audit log is complete at every log level.
    logging.getLogger("holdfast.audit").setLevel(logging.INFO)


def _is_news(record: logging.LogRecord) -> bool:
    """Drops uvicorn's (0.54) line about each malformed request: the audit log has them."""
    return not str(record.msg).startswith(("Invalid HTTP request", "Unsupported upgrade", "No supported WebSocket"))


def message_of(error: BaseException) -> str:
    """Returns the message of an error, or a description if it has none, as a time-out has."""
    if text := str(error):
        return text
    return "timed out" if isinstance(error, TimeoutError) else type(error).__name__


def counted(number: int, what: str) -> str:
    """Returns a number with its noun, in the plural where needed."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class RepeatFilter:
    """Passes a repeated line the first time, and then at most once in ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._silent_until: dict[str, float] = {}

    def passes(self, line: str, now: float) -> bool:
        if self._silent_until.get(line, now) > now:
            return False
        if len(self._silent_until) >= _MOST_REMEMBERED:
            self._silent_until.clear()
        self._silent_until[line] = now + self._seconds
        return True


class _TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        # A path or a name from a request may hold a line feed, which would forge a log line.
        return super().formatMessage(record).translate(_ESCAPED)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            # Structured fields, for example those of the audit log.
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
