"""Logging as text or JSON lines, with the instance, queue and activity of a line as fields. Payloads are never logged.

The fields of a line come from its call (:func:`about`), from the task it is logged in (:func:`log_fields`), or from the
code of an orchestration that runs (:func:`code_fields`). They are added by the handler, so that they are on the lines
of users' own loggers too.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    Fields = Mapping[str, str | int]

# Control characters, escaped as Python escapes them.
_ESCAPED = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
# Bounds the memory of RepeatFilter: the number of distinct lines it remembers.
_MOST_REMEMBERED = 1000
# The attributes of log records that are ours.
_ABOUT, _TRACE = "holdfast_about", "holdfast_trace"

_of_task: ContextVar[Fields | None] = ContextVar("holdfast_log_fields", default=None)


class _OfThread(threading.local):
    fields: Fields | None = None


_of_thread = _OfThread()


def set_up_logging(log_format: str, level: str) -> None:
    """Sets up the process' logging. With ``json``, warnings and uncaught exceptions are JSON lines too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if log_format == "json" else _TextLines())
    handler.addFilter(_add_fields)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if log_format == "json":
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
    # These libraries log each connection at INFO.
    for noisy in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    # The audit log is complete at every log level.
    logging.getLogger("holdfast.audit").setLevel(logging.INFO)


def is_json() -> bool:
    """Returns whether this process writes JSON lines."""
    return any(isinstance(handler.formatter, _JsonLines) for handler in logging.getLogger().handlers)


def as_output(text: str) -> str:
    """Returns a line for the standard output, in the format of the log."""
    if not is_json():
        return text
    return _JsonLines().format(logging.LogRecord("holdfast", logging.INFO, "", 0, text, None, None))


def about(trace: str | None = None, **fields: str | int) -> dict[str, Any]:
    """Returns the ``extra`` of a log call: the fields of what the line is about, and a stack trace to write below."""
    return {_ABOUT: fields} if trace is None else {_ABOUT: fields, _TRACE: trace}


@contextmanager
def log_fields(**fields: str | int) -> Iterator[None]:
    """A context whose log lines have these fields, and no others."""
    token = _of_task.set(fields)
    try:
        yield
    finally:
        _of_task.reset(token)


def set_log_fields(**fields: str | int) -> None:
    """Gives the log lines of this task these fields, up to its end."""
    _of_task.set(fields)


@contextmanager
def code_fields(fields: Fields) -> Iterator[None]:
    """A context for the code of an orchestration, which has context variables of its own; nothing in it awaits."""
    before, _of_thread.fields = _of_thread.fields, fields
    try:
        yield
    finally:
        _of_thread.fields = before


def _add_fields(record: logging.LogRecord) -> bool:
    found = _of_thread.fields or _of_task.get() or {}
    setattr(record, _ABOUT, {**found, **getattr(record, _ABOUT, {})})
    return True


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log = logging.getLogger("holdfast")
    log.critical("uncaught %s; the process ends", kind.__name__, exc_info=(kind, error, trace))


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


# Left out in text, because most servers have no tenants.
_USUAL = ("tenant", "default")


class _TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = getattr(record, _ABOUT, {}).items()
        named = "".join(f" {name}={value}" for name, value in fields if (name, value) != _USUAL)
        # A path or a name from a request may hold a line feed, which would forge a log line.
        line = (super().formatMessage(record) + named).translate(_ESCAPED)
        trace = getattr(record, _TRACE, None)
        below = [] if trace is None else [f"  {part.translate(_ESCAPED)}" for part in trace.split("\n")]
        return "\n".join([line, *below])


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            # Structured fields, for example those of the audit log.
            **getattr(record, "fields", {}),
            **getattr(record, _ABOUT, {}),
        }
        if (trace := getattr(record, _TRACE, None)) is not None:
            line["trace"] = trace
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
