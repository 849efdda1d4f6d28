"""The OpenAPI descriptions of the calls that show the deployed code and the queues over time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.gateway.openapi.queues import document as any_document
from holdfast.gateway.openapi.schemas import Answer

if TYPE_CHECKING:
    from pydantic import BaseModel

Document = dict[str, Any]
Schema = dict[str, Any]

document = partial(any_document, tag="inspection")


class OrchestrationShown(Answer):
    name: str
    version: str
    #: Whether a start without a version takes this one.
    latest: bool
    #: The JSON schema of the input; None where the declared type has none.
    input: Schema | None
    #: The declared mailboxes and requests, with the JSON schema of each.
    mailboxes: dict[str, Schema | None]
    requests: dict[str, Schema | None]
    timeout_seconds: float | None
    retention_seconds: float | None


class ActivityShown(Answer):
    name: str
    queue: str
    input: Schema | None


class DefinitionsAnswer(Answer):
    orchestrations: list[OrchestrationShown]
    activities: list[ActivityShown]


class RunningShown(Answer):
    activity: str
    queue: str
    instance_id: str
    execution_id: int
    scheduled_seq: int
    attempt: int
    since: str


class WorkerShown(Answer):
    queues: list[str]
    activities: list[str]
    #: How many activities of one queue run at once.
    slots: int
    #: How many activities of this tenant run now, and the first of them.
    running_count: int
    running: list[RunningShown]


class WorkersAnswer(Answer):
    workers: list[WorkerShown]


class SeriesShown(Answer):
    """One list for each figure; all have the same length."""

    #: In Unix seconds.
    at: list[float]
    waiting: list[float]
    delayed: list[float]
    locked: list[float]
    dead_letters: list[float]
    oldest_age_seconds: list[float]
    #: Items that came, and that left for any reason, since the sample before.
    pushed: list[float]
    left: list[float]


class SamplesAnswer(Answer):
    interval_seconds: float
    #: Over all queues that are not dead-letter queues.
    total: SeriesShown
    queues: dict[str, SeriesShown]


_SERIES = {
    "at": [1772295215.1, 1772295225.1],
    "waiting": [3, 5],
    "delayed": [0, 0],
    "locked": [1, 1],
    "dead_letters": [0, 0],
    "oldest_age_seconds": [1.5, 11.5],
    "pushed": [0, 4],
    "left": [0, 2],
}
_ORDER = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}

DEFINITIONS = document(
    "List the orchestrations and activities that this server was started with",
    DefinitionsAnswer,
    {
        "orchestrations": [
            {
                "name": "checkout",
                "version": "1",
                "latest": True,
                "input": _ORDER,
                "mailboxes": {},
                "requests": {},
                "timeout_seconds": None,
                "retention_seconds": None,
            }
        ],
        "activities": [{"name": "charge", "queue": "activities", "input": _ORDER}],
    },
)
WORKERS = document(
    "Show what the worker inside this server runs; workers in other processes are not listed",
    WorkersAnswer,
    {
        "workers": [
            {
                "queues": ["activities"],
                "activities": ["charge"],
                "slots": 50,
                "running_count": 1,
                "running": [
                    {
                        "activity": "charge",
                        "queue": "activities",
                        "instance_id": "order-17",
                        "execution_id": 1,
                        "scheduled_seq": 2,
                        "attempt": 1,
                        "since": "2026-02-28T16:13:35.123Z",
                    }
                ],
            }
        ]
    },
)


def samples(query: type[BaseModel]) -> Document:
    return document(
        "Show the queues over the last hour, sampled every ten seconds since the server began",
        SamplesAnswer,
        {"interval_seconds": 10, "total": _SERIES, "queues": {"orders": _SERIES}},
        query=query,
    )
