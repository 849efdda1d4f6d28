"""Logs in lines people can read, or in JSON. Payloads do not go into either."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson

# Control characters, as Python writes them.
_ESCAPED = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


def set_up_logging(log_format: str, level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if log_format == "json" else _TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # They tell of every connection at the level where ours tell of what matters.
    for noisy in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    # Whole, however little else is logged.
    logging.getLogger("holdfast.audit").setLevel(logging.INFO)


def _is_news(record: logging.LogRecord) -> bool:
    """Not what uvicorn (0.54) says of each broken request, however many come: the audit log tells of them."""
    return not str(record.msg).startswith(("Invalid HTTP request", "Unsupported upgrade", "No supported WebSocket"))


class _TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        # A path or a name that somebody sent may hold a line feed, and would make a line of its own.
        return super().formatMessage(record).translate(_ESCAPED)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            # What a line is made of, where that is more than words.
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()
