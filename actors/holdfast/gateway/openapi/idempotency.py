"""The OpenAPI descriptions of the idempotency calls: all answers, errors included, with examples."""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast import errors
from holdfast.gateway.openapi.queues import document as any_document
from holdfast.gateway.openapi.queues import sent_without
from holdfast.gateway.openapi.schemas import Answer, inlined
from holdfast.idempotency import requests

document = partial(any_document, tag="idempotency")


class BeginAnswer(Answer):
    outcome: str
    owner: str | None = None
    lease_expires_at: str | None = None
    attempt: int | None = None
    result: Any = None


class SuccessAnswer(Answer):
    success: bool


class RenewAnswer(Answer):
    success: bool
    lease_expires_at: str


class RecordAnswer(Answer):
    status: str
    owner: str
    attempts: int
    updated_at: str
    result: Any = None
    last_error: str | None = None
    lease_expires_at: str | None = None


_LEASE = {"lease_expires_at": "2026-02-28T16:14:05.123Z"}

BEGIN = document(
    "Begin an operation, or get the result of a finished one",
    BeginAnswer,
    {"outcome": "run", "owner": "worker-3", "attempt": 1} | _LEASE,
    errors.AlreadyInProgress,
    body=sent_without(requests.Begin, "tenant", "key"),
    sent={"owner": "worker-3", "lease_seconds": 30},
    required=False,
)
COMMIT = document(
    "Record the result of an operation",
    SuccessAnswer,
    {"success": True},
    errors.LeaseLost,
    body=inlined(requests.Commit),
    sent={"owner": "worker-3", "result": {"invoice": 17}},
)
FAIL = document(
    "Record that an operation failed, so that it may run again",
    SuccessAnswer,
    {"success": True},
    errors.LeaseLost,
    body=inlined(requests.Fail),
    sent={"owner": "worker-3", "error": "no connection"},
)
RENEW = document(
    "Renew the lease of a running operation",
    RenewAnswer,
    {"success": True} | _LEASE,
    errors.LeaseLost,
    body=inlined(requests.Renew),
    sent={"owner": "worker-3", "lease_seconds": 30},
)
GET = document(
    "Get the record of an operation",
    RecordAnswer,
    {"status": "SUCCESS", "owner": "worker-3", "attempts": 1, "updated_at": "2026-02-28T16:13:35.123Z", "result": 17},
    errors.NotFound,
)
