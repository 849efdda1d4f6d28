"""The actor types and state keys that Holdfast stores under. It imports nothing: readers of the store need no actor."""

from __future__ import annotations

QUEUE_TYPE = "PushPopActor"
QUEUE_INDEX_TYPE = "QueueIndexActor"
ORCHESTRATION_TYPE = "OrchestrationActor"
INSTANCE_INDEX_TYPE = "InstanceIndexActor"
TENANT_INDEX_TYPE = "TenantIndexActor"
RESCUER_TYPE = "RescuerActor"
IDEMPOTENCY_TYPE = "IdempotencyActor"
RECORD_USAGE_TYPE = "RecordUsageActor"
NOTIFIER_TYPE = "NotifierActor"
SCHEDULE_TYPE = "ScheduleActor"
SCHEDULE_INDEX_TYPE = "ScheduleIndexActor"
WAKE_LIST_TYPE = "WakeListActor"

#: The actor types that clients call directly.
CLIENT_TYPES = frozenset({QUEUE_TYPE, ORCHESTRATION_TYPE, IDEMPOTENCY_TYPE})
#: All actor types of Holdfast itself; any other one belongs to an app.
OWN_TYPES = CLIENT_TYPES | {
    QUEUE_INDEX_TYPE,
    INSTANCE_INDEX_TYPE,
    TENANT_INDEX_TYPE,
    RESCUER_TYPE,
    RECORD_USAGE_TYPE,
    NOTIFIER_TYPE,
    SCHEDULE_TYPE,
    SCHEDULE_INDEX_TYPE,
    WAKE_LIST_TYPE,
}

#: Of a queue: what it knows of itself and of its segments, and its configuration.
METADATA = "metadata"
CONFIG = "config"

#: Of an instance: its record, and the values that are too large to lie in it.
HEAD = "instance"
INPUT = "input"
ENDING = "outcome"
CUSTOM_STATUS = "custom-status"

#: Of an idempotency key: its record, and the key itself, as actor ids hold only a digest.
RECORD = "record"
KEY = "key"
