"""Exceptions as data: their form in a history, and the errors raised where a result is awaited."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from holdfast.errors import (
    ActivityFailed,
    AuthorsCodeFailed,
    NonRetryable,
    OrchestrationFailed,
    SubOrchestrationFailed,
)
from holdfast.orchestration.core.tracebacks import MAX_BYTES, traceback_of

if TYPE_CHECKING:
    import builtins

#: error: the code raised it. timeout: it took too long. poison: it was delivered too often without finishing.
#: cancelled: it was cancelled. refused: it was not started. never_yields: the orchestration's code did not yield.
Kind: TypeAlias = Literal["error", "timeout", "poison", "cancelled", "refused", "never_yields"]

_MAX_MESSAGE = 4_000
#: The most causes of a failure that are kept.
_MAX_CAUSES = 5
#: Kinds that a retry cannot fix.
_FINAL_KINDS = frozenset({"poison", "cancelled", "refused"})
_OMITTED_TYPES = frozenset({"builtins.object", "builtins.BaseException"})


Raised = TypeVar("Raised", bound=BaseException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The recorded form of an exception."""

    type: str
    message: str
    kind: Kind = "error"
    #: The names of the exception's classes, its own first, for ``Retry.non_retryable``.
    types: tuple[str, ...] = field(default=())
    #: The frames of the author's code and of what it called.
    traceback: str | None = None
    #: What the exception was raised from.
    cause: Failure | None = None
    #: The exception itself, where it is at hand: in tests without a server. It is not stored.
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, error: BaseException, kind: Kind = "error") -> Failure:
        return cls._of(error, kind, MAX_BYTES, _MAX_CAUSES)

    @classmethod
    def _of(cls, error: BaseException, kind: Kind, room: int, causes: int) -> Failure:
        try:
            message = str(error)
        except Exception as broken:
            # The author's __str__ failed; the failure is recorded without the message.
            message = f"(its message cannot be read: {type(broken).__name__})"
        traceback = None if kind == "refused" else traceback_of(error, room)
        left = room - len((traceback or "").encode())
        return cls(
            type=type(error).__name__,
            message=_writable(message[:_MAX_MESSAGE]),
            kind=kind,
            types=type_names(type(error)),
            traceback=None if traceback is None else _writable(traceback),
            cause=_cause_of(error, left, causes),
        )

    @classmethod
    def load(cls, fields: dict[str, Any]) -> Failure:
        return cls._load(fields, MAX_BYTES, _MAX_CAUSES)

    @classmethod
    def _load(cls, fields: dict[str, Any], room: int, causes: int) -> Failure:
        texts = {key: _writable(fields[key]) for key in ("type", "message") if fields.get(key) is not None}
        traceback = fields.get("traceback")
        if traceback is not None:
            traceback = _writable(traceback).encode()[-room:].decode(errors="ignore") if room > 0 else None
        cause = fields.get("cause")
        if cause is not None:
            left = room - len((traceback or "").encode())
            cause = cls._load(cause, left, causes - 1) if causes > 0 else None
        types = tuple(fields.get("types", ()))
        return cls(**{**fields, **texts, "types": types, "traceback": traceback, "cause": cause})

    def dump(self) -> dict[str, Any]:
        dumped: dict[str, Any] = {"type": self.type, "message": self.message, "kind": self.kind}
        if self.types:
            dumped["types"] = list(self.types)
        if self.traceback is not None:
            dumped["traceback"] = self.traceback
        if self.cause is not None:
            dumped["cause"] = self.cause.dump()
        return dumped

    def trace(self) -> str | None:
        """Returns the stack traces of the exception and its causes, without messages, which may contain payloads."""
        parts = [] if self.traceback is None else [f"{self.type}, raised in:\n{self.traceback.rstrip()}"]
        if self.cause is not None and (cause := self.cause.trace()) is not None:
            parts.append(cause if not parts else f"caused by {cause}")
        return "\n".join(parts) or None

    @property
    def retryable(self) -> bool:
        return self.kind not in _FINAL_KINDS and _NON_RETRYABLE not in self.types

    def is_a(self, kind: builtins.type[BaseException]) -> bool:
        """Returns whether the exception was of this class or of a subclass."""
        return _name(kind) in self.types

    def as_activity_error(self, activity: str) -> ActivityFailed:
        sentence = f"The activity {activity} failed: {self}"
        return self._caused(ActivityFailed(sentence, **self._details(), activity=activity))

    def as_sub_error(self, instance_id: str) -> SubOrchestrationFailed:
        sentence = f"The sub-orchestration {instance_id} failed: {self}"
        return self._caused(SubOrchestrationFailed(sentence, **self._details(), instance_id=instance_id))

    def as_error(self, instance_id: str) -> OrchestrationFailed:
        sentence = f"The orchestration {instance_id} failed: {self}"
        return self._caused(OrchestrationFailed(sentence, **self._details(), instance_id=instance_id))

    def _caused(self, error: Raised) -> Raised:
        error.__cause__ = self.exception
        return error

    def _details(self) -> dict[str, Any]:
        details: dict[str, Any] = {"type": self.type, "kind": self.kind, "reason": self.message}
        if self.traceback is not None:
            details["traceback"] = self.traceback
        if self.cause is not None:
            details["cause"] = shown_failure(self.cause.dump())
        return details

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def shown_failure(failure: dict[str, Any]) -> dict[str, Any]:
    """Returns a stored failure as callers see it."""
    shown: dict[str, Any] = {key: failure[key] for key in ("type", "message", "kind", "traceback") if key in failure}
    return shown if failure.get("cause") is None else shown | {"cause": shown_failure(failure["cause"])}


def _cause_of(error: BaseException, room: int, causes: int) -> Failure | None:
    if error.__cause__ is not None:
        return Failure._of(error.__cause__, "error", room, causes - 1) if causes > 0 else None
    if isinstance(error, AuthorsCodeFailed) and error.type is not None:
        # The failure of an activity or a child, whose exception was raised in another process.
        fields: dict[str, Any] = {"type": error.type, "message": error.reason or "", "kind": error.kind or "error"}
        fields |= {"traceback": error.traceback, "cause": error.cause}
        return Failure._load(fields, room, causes - 1) if causes > 0 else None
    return None


def _writable(text: str) -> str:
    """Replaces lone surrogates, which JSON cannot encode, and U+0000, which PostgreSQL's JSON cannot store."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def type_names(kind: type[BaseException]) -> tuple[str, ...]:
    return tuple(name for name in map(_name, kind.__mro__) if name not in _OMITTED_TYPES)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


_NON_RETRYABLE = _name(NonRetryable)
