"""Requests to a queue, validated for REST and actor calls alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from holdfast.errors import InvalidRequest, TooLarge
from holdfast.names import ID_PATTERN, MAX_ID_LENGTH
from holdfast.pushpop.core.budgets import MAX_POP_BYTES
from holdfast.pushpop.core.dead_letters import LetterFilter
from holdfast.pushpop.core.queue import DEFAULT_TTL, MAX_POP
from holdfast.runtime.serialization import check_lossless, check_number_of_containers, dump, load
from holdfast.tracing.traceparent import Traceparent  # noqa: TC001 (pydantic looks it up)
from holdfast.wire.times import read_time

MAX_ITEM_BYTES = 1024 * 1024
MAX_PUSH = 1000
MAX_PRIORITY = 2**31 - 1
MAX_TEXT = 1024
#: The longest part of a caller's text that an error quotes.
MAX_QUOTED = 200
MAX_COMPLETED = 1000
# A year: longer than any real use, and short enough for every clock.
MAX_SECONDS = 365 * 24 * 60 * 60

_UNKNOWN_FIELD = "unknown_field"

# PostgreSQL's jsonb, a possible state store, cannot hold U+0000.
_NUL = "\0"


def _shown_instead_of_nul(text: str | None) -> str | None:
    return text and text.replace(_NUL, "\ufffd")


LockId = Annotated[str, Field(min_length=1, max_length=255, examples=["kX3vQ1b2c4E"])]
#: Text for people.
Text = Annotated[str | None, Field(max_length=MAX_TEXT), AfterValidator(_shown_instead_of_nul)]
#: A value that programs compare.
Key = Annotated[str | None, Field(max_length=255, pattern=r"^[^\x00]*$")]
#: As long as the key of an idempotency record: an activity's key contains its instance's id.
IdempotencyKey = Annotated[str | None, Field(max_length=1024, pattern=r"^[^\x00]*$")]
#: An empty id means none.
TenantId = Annotated[str | None, Field(max_length=MAX_ID_LENGTH, pattern=f"^({ID_PATTERN[1:-1]})?$")]
Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]
Delay = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False, description="Seconds until delivery.")]
#: Long enough to be chosen at random and not to be guessed.
Owner = Annotated[str, Field(pattern="^[a-z]{16}$", examples=["qhzkwpxnvbtrmcfd"])]
ItemIds = Annotated[list[str], Field(fail_fast=True, min_length=1, max_length=MAX_COMPLETED, examples=[["0-5-12-7"]])]


class Request(BaseModel):
    """Base of all requests. Strict: a number is not a string, and an unknown field is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def known_fields_only(cls, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := _one_of_many_unknown(cls, data)) is not None:
            raise PydanticCustomError(_UNKNOWN_FIELD, "is not known here", {"field": unknown})
        return data

    @classmethod
    def parse(cls, data: Any) -> Self:
        """Returns the validated request. Raises InvalidRequest with one sentence about the first error."""
        try:
            return cls.model_validate({} if data is None else data)
        except ValidationError as error:
            raise InvalidRequest(explain(error)) from None


class ItemOptions(Request):
    """The options of an item, next to its payload."""

    priority: Annotated[int, Field(ge=0, le=MAX_PRIORITY, description="The lowest is delivered first.")] = 0
    dedup_id: Annotated[Name | None, Field(description="Stored once within the dedup window.")] = None
    delay_seconds: Delay = 0
    ttl_seconds: Annotated[
        int | None,
        Field(ge=1, le=MAX_SECONDS, description="Expires when not popped within this time after it became available."),
    ] = None
    idempotency_key: Annotated[IdempotencyKey, Field(description="Lets the consumer detect repetitions.")] = None
    tenant_id: Annotated[TenantId, Field(description="The tenant it is for; by default the queue's own.")] = None
    traceparent: Traceparent | None = None


class PushItem(ItemOptions):
    item: Annotated[Any, Field(description="Any JSON value.", examples=[{"task_id": 123}])]

    def text(self) -> str:
        """Returns the payload as it is stored."""
        data = dump(self.item)
        _check_item_size(len(data))
        return data.decode()


class Push(Request):
    """A push of one item or of a list of items."""

    items: Annotated[list[PushItem], Field(fail_fast=True, min_length=1, max_length=MAX_PUSH)]
    #: The number of items in the queue's other partitions, as far as the gateway knows.
    elsewhere: Annotated[int, Field(ge=0)] = 0
    #: The trace context of items without their own.
    traceparent: Traceparent | None = None

    @classmethod
    def parse(cls, data: Any) -> Self:
        if isinstance(data, dict):
            check_lossless(data)
        try:
            return super().parse(data)
        except InvalidRequest as error:
            if isinstance(data, dict) and "items" in data:
                raise
            # The caller pushed one item without a list, so the error must not name a list.
            raise InvalidRequest(str(error).removeprefix("items.0.").removeprefix("items.0: ")) from None

    @model_validator(mode="before")
    @classmethod
    def one_or_many(cls, data: Any) -> Any:
        if isinstance(data, dict) and "items" in data:
            return data
        if isinstance(data, dict) and "elsewhere" in data:
            return {"items": [{key: data[key] for key in data if key != "elsewhere"}], "elsewhere": data["elsewhere"]}
        return {"items": [data]}


class WrittenItem(ItemOptions):
    """An item whose payload comes as JSON text to be stored as it is, or as a string."""

    text: str | None = None
    #: A string payload. As JSON text in a JSON string, each of its quotation marks would take four characters.
    item: str | None = None

    def read(self) -> tuple[str, Any]:
        """Returns the text to store and the payload. Raises InvalidRequest or TooLarge."""
        if (self.text is None) == (self.item is None):
            raise InvalidRequest("entries: each needs either a text or an item that is a string")
        text = dump(self.item).decode() if self.text is None else self.text
        _check_item_size(len(text) if text.isascii() else len(text.encode()))
        if "\n" in text:
            raise InvalidRequest("text: has a line break")
        check_number_of_containers(text)
        try:
            return text, self.item if self.text is None else load(text)
        except ValueError as error:
            raise InvalidRequest(f"text: is not JSON: {error}.") from error


@dataclass(frozen=True, slots=True)
class CheckedPush:
    """A push of written items whose payloads were checked before the turn."""

    items: list[tuple[ItemOptions, str]]
    elsewhere: int
    #: The trace context of items without their own.
    traceparent: str | None = None


class WrittenPush(Request):
    """From the gateway: the items of a large push, whose payloads it passes on without parsing them."""

    entries: Annotated[list[WrittenItem], Field(fail_fast=True, min_length=1, max_length=MAX_PUSH)]
    elsewhere: Annotated[int, Field(ge=0)] = 0
    traceparent: Traceparent | None = None


class Pop(Request):
    count: Annotated[int, Field(ge=1, le=MAX_POP)] = 1
    #: The notifier to call when an item becomes available, if there is none now.
    notify: str | None = None


class PopWithAck(Pop):
    #: The owner tag of the lock; locks of one owner can be abandoned together.
    owner: Annotated[str | None, Field(pattern="^[a-z]{1,16}$")] = None
    ttl_seconds: Annotated[int, Field(description="Clamped to 1 to 300.")] = DEFAULT_TTL
    #: Whether to subscribe to the next item even if this pop returns some.
    stays: bool = False


class Acknowledge(Request):
    lock_id: LockId


class Return(Request):
    delay_seconds: Annotated[
        Delay,
        Field(
            description="Seconds until redelivery. By default the queue's back-off if there is an error, else 0.",
            json_schema_extra=lambda schema: schema.pop("default"),
        ),
    ] = 0
    error: Text = None

    @property
    def given_delay(self) -> float | None:
        """The delay in the request; None if it has none."""
        return self.delay_seconds if "delay_seconds" in self.model_fields_set else None


class Abandon(Acknowledge, Return):
    ids: Annotated[ItemIds | None, Field(description="Only these items under the lock.")] = None
    uncounted: Annotated[
        bool, Field(description="Takes this delivery off delivery_count: the consumer has not tried the items.")
    ] = False


class Extension(Request):
    additional_ttl_seconds: Annotated[int, Field(ge=1, description="Ends at most 300 seconds from now.")] = DEFAULT_TTL


class ExtendLock(Acknowledge, Extension):
    pass


class AbandonOwnedLocks(Request):
    """Abandons the locks of one owner; if ``uncounted``, the delivery is not counted."""

    owner: Annotated[str, Field(pattern="^[a-z]{1,16}$")]
    uncounted: bool = False


class AbandonOwned(Request):
    """Abandons locks by the owner that the pop named, for a consumer that never received the lock's id."""

    owner: Annotated[Owner, Field(description="The owner that the pop named for its lock.")]


class OfAnother(Request):
    """Addresses a lock by the visible prefix of its id, for operators, who do not have the id."""

    lock_id_prefix: LockId


class Requeue(OfAnother, Return):
    pass


class ExtendByPrefix(OfAnother, Extension):
    pass


class Complete(Request):
    ids: ItemIds


class Revoke(Request):
    id: Annotated[str, Field(max_length=255)]


class DeadLetter(Acknowledge):
    reason: Text = None
    ids: Annotated[ItemIds | None, Field(description="Only these items under the lock.")] = None


class Peek(Request):
    count: Annotated[int, Field(ge=1, le=MAX_POP)] = 1
    #: The size limit of the reply: the gateway shares its own among the partitions.
    max_bytes: Annotated[int, Field(ge=0, le=MAX_POP_BYTES)] = MAX_POP_BYTES


class InFlight(Request):
    #: The number of items to show in full; the others are only counted.
    count: Annotated[int, Field(ge=0, le=MAX_POP)] = MAX_POP
    max_bytes: Annotated[int, Field(ge=0, le=MAX_POP_BYTES)] = MAX_POP_BYTES


class DeadLetters(Request):
    limit: Annotated[int, Field(ge=1, le=MAX_POP)] = 50
    cursor: str | None = None
    #: Only dead letters of this queue.
    original_queue: str | None = None


class LettersWanted(Request):
    """Selects dead letters; all of the given conditions must hold."""

    reason: Annotated[
        str | None, Field(max_length=MAX_TEXT, description="The whole reason.", examples=["max_deliveries"])
    ] = None
    error_contains: Annotated[
        str | None, Field(min_length=1, max_length=MAX_TEXT, description="A part of the last error.")
    ] = None
    before: Annotated[
        str | None,
        Field(
            max_length=40,
            description="Only those that were dead-lettered before this time.",
            examples=["2026-11-17T06:00:00Z"],
        ),
    ] = None


class SelectDeadLetters(Request):
    """The dead letters to redrive or to delete: those with these ids, those that match, or all."""

    ids: ItemIds | None = None
    filter: Annotated[LettersWanted, Field(default_factory=LettersWanted)]
    max: Annotated[int | None, Field(ge=1, description="The most to redrive or delete.")] = None
    cursor: Annotated[
        str | None, Field(max_length=255, description="next_cursor of the previous answer; not with ids.")
    ] = None
    original_queue: str | None = None

    def wanted(self) -> LetterFilter:
        """Raises InvalidRequest for a time that is none."""
        wanted = self.filter
        before = None if wanted.before is None else read_time(wanted.before, "filter.before")
        return LetterFilter(self.original_queue, wanted.reason, wanted.error_contains, before)


class Claim(Request):
    """From the gateway: asks which partitions items with these dedup ids belong to."""

    dedup_ids: Annotated[list[Name], Field(fail_fast=True, min_length=1, max_length=MAX_PUSH)]
    partition: Annotated[int, Field(ge=0)]


class Told(Request):
    partition: Annotated[int, Field(ge=1)]
    version: Annotated[int, Field(ge=0)]


class PendingConfig(Request):
    """From the queue itself: asks which partitions lack the configuration, and reports one that has it."""

    told: Told | None = None


class Configure(Request):
    """From the queue to one of its partitions: the new configuration, and how often the queue was deleted."""

    config: dict[str, Any]
    version: Annotated[int, Field(ge=0)]
    generation: Annotated[int, Field(ge=0)]


class Delete(Request):
    """Deletes the queue; with ``force`` also if it has items."""

    force: bool = False


class FinishDeletion(Delete):
    """From the queue itself. ``version`` is that of the deletion that was begun, if other partitions were closed."""

    version: Annotated[int, Field(ge=1)] | None = None


class Close(Request):
    """From the queue to one of its partitions: a deletion was begun."""

    version: Annotated[int, Field(ge=1)]


class Transferred(Request):
    """From the queue itself: the outcome of a transfer, and the queues it is sending to at present."""

    number: Annotated[int, Field(ge=0)] | None = None
    accepted: bool = True
    busy: Annotated[list[str], Field(fail_fast=True)] = []


class StoredItem(Request):
    item: str
    at: float
    key: str | None = None
    dedup: str | None = None
    tenant: str | None = None
    trace: str | None = None
    origin: dict[str, Any] | None = None

    @field_validator("item")
    @classmethod
    def is_json(cls, text: str) -> str:
        load(text)
        return text


class TransferredItem(Request):
    priority: Annotated[int, Field(ge=0, le=MAX_PRIORITY)]
    stored: StoredItem


class Receive(Request):
    """From another queue: its dead letters, or redriven items that return."""

    source: Annotated[str, Field(min_length=1)]
    target: str
    number: Annotated[int, Field(ge=0)]
    items: Annotated[list[TransferredItem], Field(fail_fast=True, min_length=1, max_length=MAX_POP)]


def refuse_many_unknown(model: type[BaseModel], data: dict[str, Any]) -> None:
    """Raises InvalidRequest for an unknown field if there are more fields than the model has."""
    if (unknown := _one_of_many_unknown(model, data)) is not None:
        raise InvalidRequest(f"{shortened(unknown)}: is not known here")


def _one_of_many_unknown(model: type[BaseModel], data: dict[str, Any]) -> str | None:
    """Returns an unknown field if there are many: pydantic would make an error for each of a million of them."""
    if len(data) <= len(model.__pydantic_fields__):
        return None
    return str(next(key for key in data if key not in model.__pydantic_fields__))


def _check_item_size(size: int) -> None:
    if size > MAX_ITEM_BYTES:
        raise TooLarge(f"An item may have {MAX_ITEM_BYTES // 1024 // 1024} MiB at most; this one has {size} bytes.")


# Where pydantic's own message would name a class, or not say enough.
_PROBLEMS = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "dict_type": "has to be a JSON object",
    "model_type": "has to be a JSON object",
    "model_attributes_type": "has to be a JSON object",
}


def explain(error: ValidationError) -> str:
    """Returns the first validation error with its location, as one sentence."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    if first["type"] == _UNKNOWN_FIELD:
        place = f"{place}.{first['ctx']['field']}".removeprefix(".")
    problem = _PROBLEMS.get(first["type"], first["msg"])
    return f"{shortened(place)}: {problem}" if place else str(problem)


def shortened(text: str, length: int = MAX_QUOTED) -> str:
    """Returns text of a caller, shortened for an error message."""
    return text if len(text) <= length else f"{text[:length]}…"
