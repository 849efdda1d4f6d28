"""W3C trace contexts as text, and ids of spans that outlive a process. Pure: works without OpenTelemetry."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Annotated

from pydantic import AfterValidator, Field

#: The HTTP header and the gRPC metadata key, in lower case.
HEADER = "traceparent"
# Versions after 00 may have further fields after these.
_PARTS = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?\Z", re.ASCII)
_LONGEST = 512


def read(text: str | None) -> str | None:
    """Returns a trace context in the form of version 00, or None for text that is none."""
    if text is None or len(text) > _LONGEST or (found := _PARTS.match(text)) is None:
        return None
    trace_id, span_id, flags = found.groups()
    if not (int(trace_id, 16) and int(span_id, 16)) or (text.startswith("00") and len(text) != len("00---") + 50):
        return None
    return f"00-{trace_id}-{span_id}-{flags}"


#: A field of a request. Ids of zeros only stand for no context, as W3C defines it.
Traceparent = Annotated[
    str,
    Field(
        pattern="^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$",
        description="The W3C trace context it belongs to.",
        examples=["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
    ),
    AfterValidator(read),
]


def span_id(*parts: str | int) -> str:
    """Returns the id of the span that these parts identify: every process derives the same one."""
    digest = blake2b("\0".join(map(str, parts)).encode(), digest_size=8).hexdigest()
    return digest if int(digest, 16) else "1".zfill(16)


def within(traceparent: str, span: str) -> str:
    """Returns the context of another span of the same trace, sampled alike."""
    version, trace_id, _, flags = traceparent.split("-")
    return f"{version}-{trace_id}-{span}-{flags}"


def in_headers(headers: list[tuple[bytes, bytes]]) -> str | None:
    """Returns the trace context in the headers of an ASGI request, if there is a valid one."""
    for name, value in headers:
        if name == b"traceparent":
            return read(value.decode("latin-1"))
    return None
