"""Exceptions as data: their form in a history, and the errors raised where a result is awaited."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from holdfast.errors import ActivityFailed, NonRetryable, OrchestrationFailed, SubOrchestrationFailed

if TYPE_CHECKING:
    import builtins

#: error: the code raised it. timeout: it took too long. poison: it was delivered too often without finishing.
#: cancelled: it was cancelled. refused: it was not started. never_yields: the orchestration's code did not yield.
Kind: TypeAlias = Literal["error", "timeout", "poison", "cancelled", "refused", "never_yields"]

_MAX_MESSAGE = 4_000
_MAX_STACK = 8_000
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
    stack: str | None = None
    #: The exception itself, where it is at hand: in tests without a server. It is not stored.
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, error: BaseException, kind: Kind = "error") -> Failure:
        try:
            message = str(error)
        except Exception as broken:
            # The author's __str__ failed; the failure is recorded without the message.
            message = f"(its message cannot be read: {type(broken).__name__})"
        return cls(
            type=type(error).__name__,
            message=_writable(message[:_MAX_MESSAGE]),
            kind=kind,
            types=type_names(type(error)),
            stack=_writable("".join(traceback.format_exception(error))[-_MAX_STACK:]),
        )

    @classmethod
    def load(cls, fields: dict[str, Any]) -> Failure:
        texts = {key: _writable(fields[key]) for key in ("type", "message", "stack") if fields.get(key) is not None}
        return cls(**{**fields, **texts, "types": tuple(fields.get("types", ()))})

    def dump(self) -> dict[str, Any]:
        dumped: dict[str, Any] = {"type": self.type, "message": self.message, "kind": self.kind}
        if self.types:
            dumped["types"] = list(self.types)
        if self.stack is not None:
            dumped["stack"] = self.stack
        return dumped

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
        return {"type": self.type, "kind": self.kind, "reason": self.message}

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def _writable(text: str) -> str:
    """Replaces lone surrogates, which JSON cannot encode, and U+0000, which PostgreSQL's JSON cannot store."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def type_names(kind: type[BaseException]) -> tuple[str, ...]:
    return tuple(name for name in map(_name, kind.__mro__) if name not in _OMITTED_TYPES)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


_NON_RETRYABLE = _name(NonRetryable)
