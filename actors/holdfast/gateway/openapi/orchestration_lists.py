"""The OpenAPI descriptions of the calls that find instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.gateway.openapi.orchestrations import Document, WaitingShown, document
from holdfast.gateway.openapi.schemas import Answer, inlined

if TYPE_CHECKING:
    from pydantic import BaseModel


class Listed(Answer):
    instance_id: str
    name: str
    version: str
    status: str
    tags: dict[str, str]
    created_at: str
    ended_at: str | None
    #: With ``waiting``; null for an instance that could not be read.
    waiting_for: list[WaitingShown] | None = None


class ListAnswer(Answer):
    orchestrations: list[Listed]
    #: There may be more, even if this page has fewer than the limit.
    next_cursor: str | None = None


class CountsAnswer(Answer):
    #: By status.
    counts: dict[str, int]
    by_name: dict[str, dict[str, int]]


class BulkAnswer(Answer):
    #: By this call.
    matched: int
    done: int
    #: The ids of the instances for which the action could not be done.
    failed: list[str]
    next_cursor: str | None = None


_LISTED = {
    "instance_id": "order-17",
    "name": "checkout",
    "version": "1",
    "status": "RUNNING",
    "tags": {"customer": "acme"},
    "created_at": "2026-02-28T16:13:35.123Z",
    "ended_at": None,
}
_COUNTS = {"RUNNING": 3, "COMPLETED": 17}


def listed(query: type[BaseModel]) -> Document:
    return document("List instances, the newest first", ListAnswer, {"orchestrations": [_LISTED]}, query=query)


def counted(query: type[BaseModel]) -> Document:
    example = {"counts": _COUNTS, "by_name": {"checkout": _COUNTS}}
    return document("Count instances by status and orchestration", CountsAnswer, example, query=query)


def bulk(body: type[BaseModel]) -> Document:
    sent = {"action": "cancel", "filter": {"status": "RUNNING", "tag": "customer:acme"}, "reason": "moved"}
    return document(
        "Act on all instances that match a filter",
        BulkAnswer,
        {"matched": 3, "done": 2, "failed": ["order-17"]},
        body=inlined(body),
        sent=sent,
    )
