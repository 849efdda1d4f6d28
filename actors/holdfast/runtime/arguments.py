"""How clients of other languages write an actor method's argument, and read that it returned nothing."""

from __future__ import annotations

from holdfast.kinds import CLIENT_TYPES
from holdfast.runtime.serialization import LARGE, load

NOTHING = b"null"

_LIST = b"["
_SPACE = b" \t\n\r"


def argument_of(actor_type: str, body: bytes) -> bytes:
    """Returns the argument of a call as JSON.

    JavaScript's actor proxy sends ``[argument]``. Holdfast's own actors take an object or nothing, so a list of one
    object can only be that. An app's own actors may take lists, and get the body as it is.
    """
    if actor_type not in CLIENT_TYPES or body[:1] not in _LIST + _SPACE:
        return body
    text = body.strip(_SPACE)
    if not text.startswith(_LIST) or not text.endswith(b"]"):
        return body
    if len(body) < LARGE:
        try:
            value = load(text)
        except ValueError:
            return body
        if len(value) != 1:
            return body
    # A large one is not parsed to see whether it has one element: what is left of another is no JSON.
    return text[1:-1].strip(_SPACE)


def without_nothing(answer: bytes, *, plain: bool) -> bytes:
    """Returns an answer as its caller expects it.

    A method that returns nothing answers ``null``, which Python's and Rust's clients parse. Java's needs an empty body
    for a ``void`` method. It calls one without an argument by a ``plain`` request, without a body and without a content
    type. With an argument its request is the same as Rust's, because daprd passes no content type on from gRPC: there
    it gets ``null``, which only a method that is declared as ``Mono<Void>`` can read.
    """
    return b"" if plain and answer == NOTHING else answer
