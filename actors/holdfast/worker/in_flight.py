"""The jobs of a worker that are in flight: from when they are taken until they have left it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.pushpop.api.replies import iso

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable

    from holdfast.worker.slots import Seat
    from holdfast.worker.work_source import Job, JobBatch

# How many running activities a description lists.
_MOST_DESCRIBED = 100


@dataclass(eq=False)
class InFlightBatch:
    """The jobs of a batch that are in flight."""

    batch: JobBatch
    running: dict[Job, asyncio.Task[None]] = field(default_factory=dict)
    seats: dict[Job, Seat] = field(default_factory=dict)
    #: Set for a job whose result is no longer needed.
    cancelled: dict[Job, threading.Event] = field(default_factory=dict)
    #: When the batch was taken, and the timer that starts the renewal of its lock.
    began: float = 0.0
    alarm: asyncio.TimerHandle | None = None
    #: Jobs whose lease another worker has taken over.
    lost: set[Job] = field(default_factory=set)

    async def runs_on(self, seconds: float) -> bool:
        """Returns whether a job of the batch still runs after ``seconds``."""
        if running := list(self.running.values()):
            await asyncio.wait(running, timeout=seconds)
        return bool(self.running)


def running_jobs(batches: Iterable[InFlightBatch], tenant: str) -> dict[str, Any]:
    """Returns the running activities of a tenant, as the REST interface shows them: the longest running first."""
    now, clock = asyncio.get_running_loop().time(), time.time()
    found = ((batch, job) for batch in batches if batch.batch.tenant == tenant for job in batch.running)
    running = sorted(found, key=lambda one: one[0].began)
    return {
        "running_count": len(running),
        "running": [
            {
                "activity": job.name,
                "queue": in_flight.batch.queue,
                "instance_id": job.instance_id,
                "execution_id": job.execution_id,
                "scheduled_seq": job.scheduled_seq,
                "attempt": job.attempt,
                "since": iso(clock - (now - in_flight.began)),
            }
            for in_flight, job in running[:_MOST_DESCRIBED]
        ],
    }
