"""Converts refusals to exceptions. An actor refuses in the reply of a successful call, with ``success`` false."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidRequest, by_code

# Fields of a refusal, besides code and message, that are passed on to the caller.
_DETAILS = ("lock_expires_at", "retry_after", "completed", "ignored", "not_leased", "lease_expires_at", "request_id")


def raise_for_refusal(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the actor's reply, or raises the error that a refusal stands for."""
    if answer.get("success") is False:
        details = {key: answer[key] for key in _DETAILS if key in answer}
        raise by_code(answer.get("error_code", InvalidRequest.code), answer.get("message", ""), **details)
    return answer


def is_refusal(answer: dict[str, Any], code: str) -> bool:
    """Returns whether the reply is a refusal with this error code."""
    return answer.get("success") is False and answer.get("error_code") == code
