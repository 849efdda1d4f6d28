"""Metrics of one process. The counters of queues are stored with the queues."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# From a turn on state in memory to one whose store hardly responds.
_TURN_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# A lock lasts at most 300 s, but can be extended repeatedly.
_PROCESSING_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
# From an activity whose worker is in the same process to one that takes a person's day.
_ACTIVITY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 28_800.0)


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
        self.unscheduled = Counter(
            "holdfast_unscheduled_completions_total",
            "Completions of activities that no instance had scheduled; ignored.",
            registry=self.registry,
        )
        self.abandoned_threads = Gauge(
            "holdfast_abandoned_threads",
            "Threads that still run after their activity timed out.",
            registry=self.registry,
        )
        self.long_polls = Gauge("holdfast_long_polls_waiting", "Pops that wait for an item.", registry=self.registry)
        self.long_poll_wakeups = Counter(
            "holdfast_long_poll_wakeups_total",
            "Notifications from queues that there are items to pop.",
            registry=self.registry,
        )
