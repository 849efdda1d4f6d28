"""What callers may ask of a queue, checked where it comes in: by REST and by actor call alike."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.errors import InvalidRequest, TooLarge
from holdfast.identity import ID_PATTERN, MAX_ID_LENGTH
from holdfast.pushpop.core import DEFAULT_TTL, MAX_POP
from holdfast.runtime.serialization import check_lossless, dump, load

MAX_ITEM_BYTES = 1024 * 1024
MAX_PUSH = 1000
MAX_PRIORITY = 2**31 - 1
MAX_TEXT = 1024
MAX_COMPLETED = 1000
# A year: longer than anybody means, and short enough for any clock.
MAX_SECONDS = 365 * 24 * 60 * 60

# PostgreSQL's jsonb, where some keep their state, has no U+0000.
_NUL = "\0"


def _shown_instead_of_nul(text: str | None) -> str | None:
    return text and text.replace(_NUL, "\ufffd")


LockId = Annotated[str, Field(min_length=1, max_length=255, examples=["kX3vQ1b2c4E"])]
#: For people to read.
Text = Annotated[str | None, Field(max_length=MAX_TEXT), AfterValidator(_shown_instead_of_nul)]
#: For programs to compare.
Key = Annotated[str | None, Field(max_length=255, pattern=r"^[^\x00]*$")]
#: An empty one is none.
TenantId = Annotated[str | None, Field(max_length=MAX_ID_LENGTH, pattern=f"^({ID_PATTERN[1:-1]})?$")]
Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]
Delay = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False, description="Not to be taken before.")]
ItemIds = Annotated[list[str], Field(min_length=1, max_length=MAX_COMPLETED, examples=[["0-5-12-7"]])]


class Request(BaseModel):
    """Strict: a number is not a string, and a field nobody knows is a mistake."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @classmethod
    def parse(cls, data: Any) -> Self:
        """Raises InvalidRequest with one sentence about the first thing that is wrong."""
        try:
            return cls.model_validate({} if data is None else data)
        except ValidationError as error:
            raise InvalidRequest(explain(error)) from None


class PushItem(Request):
    item: Annotated[Any, Field(description="Any JSON value.", examples=[{"task_id": 123}])]
    priority: Annotated[int, Field(ge=0, le=MAX_PRIORITY, description="Lowest first.")] = 0
    dedup_id: Annotated[Name | None, Field(description="Pushed again inside the window, it is stored once.")] = None
    delay_seconds: Delay = 0
    ttl_seconds: Annotated[
        int | None,
        Field(ge=1, le=MAX_SECONDS, description="Dropped when nobody took it so long after it could be taken."),
    ] = None
    idempotency_key: Annotated[Key, Field(description="What its consumer tells repetitions by.")] = None
    tenant_id: Annotated[TenantId, Field(description="On whose behalf; the queue's own tenant when left out.")] = None

    def text(self) -> str:
        """The payload as it is stored."""
        data = dump(self.item)
        if len(data) > MAX_ITEM_BYTES:
            raise TooLarge(
                f"An item may have {MAX_ITEM_BYTES // 1024 // 1024} MiB at most; this one has {len(data)} bytes."
            )
        return data.decode()


class Push(Request):
    """One item, or a list of them."""

    items: Annotated[list[PushItem], Field(min_length=1, max_length=MAX_PUSH)]
    #: How many items the queue's other partitions have, as far as the gateway knows.
    elsewhere: Annotated[int, Field(ge=0)] = 0

    @classmethod
    def parse(cls, data: Any) -> Self:
        if isinstance(data, dict):
            check_lossless(data)
        try:
            return super().parse(data)
        except InvalidRequest as error:
            if isinstance(data, dict) and "items" in data:
                raise
            # Whoever pushes one item has written no list.
            raise InvalidRequest(str(error).removeprefix("items.0.").removeprefix("items.0: ")) from None

    @model_validator(mode="before")
    @classmethod
    def one_or_many(cls, data: Any) -> Any:
        if isinstance(data, dict) and "items" in data:
            return data
        if isinstance(data, dict) and "elsewhere" in data:
            return {"items": [{key: data[key] for key in data if key != "elsewhere"}], "elsewhere": data["elsewhere"]}
        return {"items": [data]}


class Pop(Request):
    count: Annotated[int, Field(ge=1, le=MAX_POP)] = 1
    #: Whom to tell when there is something, if there is nothing now.
    doorbell: str | None = None


class PopWithAck(Pop):
    #: What the lock is known by, for those whose locks are to be given back together.
    mark: Annotated[str | None, Field(pattern="^[a-z]{1,16}$")] = None
    ttl_seconds: Annotated[int, Field(description="Taken as 1 to 300.")] = DEFAULT_TTL
    #: Whether the doorbell is to be rung for what comes next, too, when there is something now.
    stays: bool = False


class Acknowledge(Request):
    lock_id: LockId


class Return(Request):
    delay_seconds: Delay = 0
    error: Text = None


class Abandon(Acknowledge, Return):
    ids: Annotated[ItemIds | None, Field(description="Only these of the items under the lock.")] = None


class Extension(Request):
    additional_ttl_seconds: Annotated[int, Field(ge=1, description="Never past 300 seconds from now.")] = DEFAULT_TTL


class ExtendLock(Acknowledge, Extension):
    pass


class GiveBackMarked(Request):
    mark: Annotated[str, Field(pattern="^[a-z]{1,16}$")]


class OfAnother(Request):
    """For a lock of somebody else, by what is shown of its id."""

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
    ids: Annotated[ItemIds | None, Field(description="Only these of the items under the lock.")] = None


class Peek(Request):
    count: Annotated[int, Field(ge=1, le=MAX_POP)] = 1


class DeadLetters(Request):
    limit: Annotated[int, Field(ge=1, le=MAX_POP)] = 50
    cursor: str | None = None
    #: Only what came from this queue.
    original_queue: str | None = None


class Redrive(Request):
    ids: ItemIds | None = None
    max: Annotated[int | None, Field(ge=1, description="At most so many.")] = None
    cursor: str | None = None
    original_queue: str | None = None


class Claim(Request):
    """From the gateway: where do items with these dedup ids belong?"""

    dedup_ids: Annotated[list[Name], Field(min_length=1, max_length=MAX_PUSH)]
    partition: Annotated[int, Field(ge=0)]


class Told(Request):
    partition: Annotated[int, Field(ge=1)]
    version: Annotated[int, Field(ge=0)]


class Untold(Request):
    """Who does not know the configuration yet? And who knows it now."""

    told: Told | None = None


class Configure(Request):
    """From the queue to one of its partitions."""

    config: dict[str, Any]
    version: Annotated[int, Field(ge=0)]


class Transferred(Request):
    """From the queue itself: what it sent has arrived."""

    number: Annotated[int, Field(ge=0)]


class StoredItem(Request):
    item: str
    at: float
    key: str | None = None
    dedup: str | None = None
    tenant: str | None = None
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
    """From another queue: its dead letters, or ours that it sends back."""

    source: Annotated[str, Field(min_length=1)]
    target: str
    number: Annotated[int, Field(ge=0)]
    items: Annotated[list[TransferredItem], Field(min_length=1, max_length=MAX_POP)]


def explain(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    problem = {"missing": "is missing", "extra_forbidden": "is not known here"}.get(first["type"], first["msg"])
    return f"{place}: {problem}" if place else str(problem)
