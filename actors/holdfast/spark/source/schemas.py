"""The schemas of the tables. Payloads are JSON text, times are timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from holdfast.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT, _TIME, _INT, _LONG = StringType(), TimestampType(), IntegerType(), LongType()


def _schema(**columns: DataType) -> StructType:
    fields = {"app_id": _TEXT, "tenant": _TEXT} | columns
    return StructType([StructField(name, kind) for name, kind in fields.items()])


SCHEMAS: dict[str, StructType] = {
    # One row for each partition of a queue.
    "queues": _schema(
        queue=_TEXT,
        partition=_INT,
        waiting=_LONG,
        delayed=_LONG,
        locked=_LONG,
        oldest_enqueued_at=_TIME,
        config=_TEXT,
    ),
    "items": _schema(
        queue=_TEXT,
        partition=_INT,
        id=_TEXT,
        priority=_LONG,
        state=_TEXT,
        item=_TEXT,
        enqueued_at=_TIME,
        due_at=_TIME,
        expires_at=_TIME,
        delivery_count=_LONG,
        dedup_id=_TEXT,
        idempotency_key=_TEXT,
        last_error=_TEXT,
    ),
    "locks": _schema(
        queue=_TEXT,
        partition=_INT,
        lock_id_prefix=_TEXT,
        count=_LONG,
        created_at=_TIME,
        expires_at=_TIME,
    ),
    "dead_letters": _schema(
        queue=_TEXT,
        id=_TEXT,
        item=_TEXT,
        reason=_TEXT,
        attempts=_LONG,
        last_error=_TEXT,
        original_queue=_TEXT,
        original_partition=_INT,
        original_id=_TEXT,
        idempotency_key=_TEXT,
        dead_lettered_at=_TIME,
    ),
    "instances": _schema(
        instance_id=_TEXT,
        name=_TEXT,
        version=_TEXT,
        status=_TEXT,
        input=_TEXT,
        output=_TEXT,
        error=_TEXT,
        custom_status=_TEXT,
        execution_id=_LONG,
        parent=_TEXT,
        created_at=_TIME,
        updated_at=_TIME,
        ended_at=_TIME,
        events=_LONG,
        tags=_TEXT,
        rerun_of=_TEXT,
        reruns=_TEXT,
    ),
    "history": _schema(
        instance_id=_TEXT,
        execution_id=_LONG,
        seq=_LONG,
        type=_TEXT,
        timestamp=_TIME,
        name=_TEXT,
        scheduled_seq=_LONG,
        data=_TEXT,
    ),
    "idempotency": _schema(
        key=_TEXT,
        status=_TEXT,
        result=_TEXT,
        last_error=_TEXT,
        owner=_TEXT,
        lease_expires_at=_TIME,
        attempts=_LONG,
        updated_at=_TIME,
    ),
    # Rows that were skipped because they cannot be read, or do not belong to Holdfast.
    "problems": _schema(
        actor_type=_TEXT,
        actor_id=_TEXT,
        state_key=_TEXT,
        problem=_TEXT,
        detail=_TEXT,
        count=_LONG,
    ),
}

#: The actor type each table is read from; tables not listed are read from all types. Strings, since importing the
#: actors would take longer than planning the tasks.
MADE_BY = {
    **dict.fromkeys(("queues", "items", "locks", "dead_letters"), "PushPopActor"),
    **dict.fromkeys(("instances", "history"), "OrchestrationActor"),
    "idempotency": "IdempotencyActor",
}

#: The tables of users' data.
TABLES = tuple(table for table in SCHEMAS if table != "problems")


def check_columns(table: str, wanted: StructType, whole: StructType) -> None:
    """Raises InvalidRequest for columns the table does not have."""
    for column in wanted.fields:
        if column.name not in whole.names or whole[column.name].dataType != column.dataType:
            raise InvalidRequest(
                f"The schema of the table {table} must be {whole.simpleString()}, or some of these columns."
            )


def some_columns(table: str, names: Sequence[str]) -> StructType:
    """Returns the schema of some columns of a table. Raises InvalidRequest for columns it does not have."""
    whole = SCHEMAS[table]
    if not names or not set(names) <= set(whole.names):
        raise InvalidRequest(f"The columns of {table} are {', '.join(whole.names)}: name some of them.")
    return StructType([whole[name] for name in names])
