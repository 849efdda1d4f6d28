"""What one process counts of its own work, for whoever watches it. What queues count lies in the queues."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# From a turn that finds all in memory to one whose store hardly answers any more.
_TURN_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# A lock lasts 300 s at most, but can be extended again and again.
_PROCESSING_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
# From one that a worker beside its instance was waiting for to one that takes a person's day.
_ACTIVITY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 28_800.0)


class Meters:
    """Those of one host: several in one process do not add up."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.turns = Histogram(
            "holdfast_turn_duration_seconds",
            "How long turns of actors took, what they read and saved included.",
            ["actor_type"],
            buckets=_TURN_BUCKETS,
            registry=self.registry,
        )
        self.append_failures = Counter(
            "holdfast_append_failures_total",
            "Turns whose changes could not be saved; their callers were told to try again.",
            ["actor_type"],
            registry=self.registry,
        )
        # Without the queue: a histogram for each would be far more series than all the rest.
        self.processing = Histogram(
            "holdfast_processing_seconds",
            "Time from a pop to the acknowledgement or completion of what it locked.",
            buckets=_PROCESSING_BUCKETS,
            registry=self.registry,
        )
        self.replays = Counter(
            "holdfast_replays_total",
            "Times the code of an instance was brought back from its history.",
            ["orchestration"],
            registry=self.registry,
        )
        self.activities = Histogram(
            "holdfast_activity_latency_seconds",
            "Time from when an activity was asked for to when its instance has the outcome.",
            ["activity", "outcome"],
            buckets=_ACTIVITY_BUCKETS,
            registry=self.registry,
        )
        self.unscheduled = Counter(
            "holdfast_unscheduled_completions_total",
            "Completions of what no instance had asked for; they changed nothing.",
            registry=self.registry,
        )
        self.long_polls = Gauge(
            "holdfast_long_polls_waiting", "Pops that wait here for something to come.", registry=self.registry
        )
        self.doorbells = Counter(
            "holdfast_doorbells_rung_total",
            "Times a queue told this process that there is something to pop.",
            registry=self.registry,
        )
