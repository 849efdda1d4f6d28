"""Requests to an idempotency record, validated for REST and actor calls alike."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from holdfast.errors import TooLarge
from holdfast.idempotency.record import DEFAULT_LEASE, DEFAULT_RETENTION, MAX_LEASE, MAX_RETENTION
from holdfast.pushpop.api.requests import Name, Request
from holdfast.runtime.serialization import check_lossless, dump

MAX_RESULT_BYTES = 1024 * 1024
MAX_KEY = 1024
MAX_ERROR = 4096

# Long enough for a queue's name with an item's id, which consumers use as their owner.
Owner = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]*$", examples=["worker-3"])]
Fence = Annotated[
    int,
    Field(ge=0, le=2**53 - 1, description="For the same owner, a higher one takes over and a lower one is refused."),
]
LeaseSeconds = Annotated[int, Field(ge=1, le=MAX_LEASE, description="How long others wait if it is not renewed.")]


class Begin(Request):
    #: Set by the gateway; shown with the record.
    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY)]
    tenant: Annotated[str, Field(min_length=1, max_length=255)] = "default"
    owner: Annotated[Owner | None, Field(description="Generated when left out.")] = None
    fence: Fence = 0
    lease_seconds: LeaseSeconds = DEFAULT_LEASE
    incarnation: Annotated[
        Name | None, Field(description="For a key that is reused: records of other incarnations are ignored.")
    ] = None


class Commit(Request):
    owner: Owner
    fence: Fence = 0
    result: Annotated[Any, Field(description="Any JSON value.")] = None
    retention_seconds: Annotated[int, Field(ge=1, le=MAX_RETENTION)] = DEFAULT_RETENTION

    def text(self) -> str:
        """Returns the result as JSON text: daprd would read its numbers as 64-bit floats."""
        check_lossless({"result": self.result})
        data = dump(self.result)
        if len(data) > MAX_RESULT_BYTES:
            raise TooLarge(f"result: {MAX_RESULT_BYTES // 1024 // 1024} MiB at most; this has {len(data)} bytes.")
        return data.decode()


class Fail(Request):
    owner: Owner
    fence: Fence = 0
    error: Annotated[str, Field(max_length=MAX_ERROR)] = ""

    def shown(self) -> str:
        # PostgreSQL's jsonb, a possible state store, cannot hold U+0000.
        return self.error.replace("\0", "\ufffd")


class Delete(Request):
    incarnation: Name


class Renew(Request):
    owner: Owner
    fence: Fence = 0
    lease_seconds: LeaseSeconds = DEFAULT_LEASE
