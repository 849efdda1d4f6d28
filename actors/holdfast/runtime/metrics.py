"""Metrics of one process. The counters of queues are stored with the queues."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# From a turn on state in memory to one whose store hardly responds.
_TURN_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# A lock lasts at most 300 s, but can be extended repeatedly.
_PROCESSING_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
# From an activity whose worker is in the same process to one that takes a person's day.
_ACTIVITY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 28_800.0)


#: Stands for activities and orchestrations that no app of this process declares: code may generate names.
UNDECLARED = "other"
# The outcomes of activities by the kinds of their failures.
_OUTCOMES = {"error": "failed", "timeout": "timed_out"}


def outcome_of(kind: str | None) -> str:
    """Returns the label of an activity's outcome: of a failure of this kind, or without one of a result."""
    return "completed" if kind is None else _OUTCOMES.get(kind, kind)


class WorkerMetrics:
    """The metrics of the workers of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.activities = Counter(
            "holdfast_worker_activities_total",
            "Activities that left this worker, by what became of them.",
            ["activity", "outcome"],
            registry=registry,
        )
        self.seconds = Histogram(
            "holdfast_worker_activity_seconds",
            "Duration of activities in this worker, without their wait in the queue.",
            ["activity"],
            buckets=_ACTIVITY_BUCKETS,
            registry=registry,
        )
        self.running = Gauge(
            "holdfast_worker_running", "Activities that run in this worker.", ["queue"], registry=registry
        )
        self.slots = Gauge(
            "holdfast_worker_slots",
            "Activities of the queue that may run in this worker at once, for each tenant.",
            ["queue"],
            registry=registry,
        )
        self.abandoned_threads = Gauge(
            "holdfast_abandoned_threads", "Threads that still run after their activity timed out.", registry=registry
        )


class Metrics:
    """The metrics of one host; several hosts in one process count separately."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.turns = Histogram(
            "holdfast_turn_duration_seconds",
            "Duration of actor turns, including reads and saves.",
            ["actor_type"],
            buckets=_TURN_BUCKETS,
            registry=self.registry,
        )
        self.append_failures = Counter(
            "holdfast_append_failures_total",
            "Turns whose changes could not be saved; their callers got a retryable error.",
            ["actor_type"],
            registry=self.registry,
        )
        # Not by queue: a histogram for each would be far more series than all other metrics.
        self.processing = Histogram(
            "holdfast_processing_seconds",
            "Time from a pop to the acknowledgement or completion of its items.",
            buckets=_PROCESSING_BUCKETS,
            registry=self.registry,
        )
        self.replays = Counter(
            "holdfast_replays_total",
            "Replays of an instance's history.",
            ["orchestration"],
            registry=self.registry,
        )
        self.started = Counter(
            "holdfast_orchestrations_started_total",
            "Instances started.",
            ["orchestration"],
            registry=self.registry,
        )
        self.ended = Counter(
            "holdfast_orchestrations_ended_total",
            "Instances ended: completed, failed or cancelled.",
            ["orchestration", "outcome"],
            registry=self.registry,
        )
        self.blocked = Gauge(
            "holdfast_orchestrations_blocked",
            "Instances in this process that are BLOCKED: the deployed code cannot continue them.",
            registry=self.registry,
        )
        self.schedule_ticks = Counter(
            "holdfast_schedule_ticks_total",
            "Ticks of schedules: started an instance, skipped because of the last one, or missed.",
            ["outcome"],
            registry=self.registry,
        )
        self.activities = Histogram(
            "holdfast_activity_latency_seconds",
            "Time from scheduling an activity until its instance has the outcome.",
            ["activity", "outcome"],
            buckets=_ACTIVITY_BUCKETS,
            registry=self.registry,
        )
        self.activity_outcomes = Counter(
            "holdfast_activity_outcomes_total",
            "Outcomes of activities that their instances have recorded, each attempt on its own.",
            ["activity", "outcome"],
            registry=self.registry,
        )
        self.activity_retries = Counter(
            "holdfast_activity_retries_total",
            "Attempts of activities after the first, as their instances have scheduled them.",
            ["activity"],
            registry=self.registry,
        )
        self.worker = WorkerMetrics(self.registry)
        self.unscheduled = Counter(
            "holdfast_unscheduled_completions_total",
            "Completions of activities that no instance had scheduled; ignored.",
            registry=self.registry,
        )
        self.long_polls = Gauge("holdfast_long_polls_waiting", "Pops that wait for an item.", registry=self.registry)
        self.long_poll_wakeups = Counter(
            "holdfast_long_poll_wakeups_total",
            "Notifications from queues that there are items to pop.",
            registry=self.registry,
        )
