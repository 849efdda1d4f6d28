"""Refusals of an actor: answers of successful calls, which become errors here."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidRequest, by_code

# What a refusal says beside its code and its words, that is for the caller.
_DETAILS = ("lock_expires_at", "retry_after", "completed", "ignored", "not_leased", "lease_expires_at")


def accepted(answer: dict[str, Any]) -> dict[str, Any]:
    """The actor's answer, unless it is a refusal, which is raised."""
    if answer.get("success") is False:
        details = {key: answer[key] for key in _DETAILS if key in answer}
        raise by_code(answer.get("error_code", InvalidRequest.code), answer.get("message", ""), **details)
    return answer


def is_refusal(answer: dict[str, Any], code: str) -> bool:
    return answer.get("success") is False and answer.get("error_code") == code
