"""Requests made from chance: some as they should be, most wrong in one place, some hostile or large as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from tests.behaviour.security.fuzz.server import MARKERS, OPERATOR, TENANTS
from tests.behaviour.security.fuzz.values import LARGE, hostile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from tests.behaviour.security.fuzz.operations import Operation
    from tests.behaviour.security.fuzz.schemas import Sampler
    from tests.behaviour.security.fuzz.server import Caller

#: Of larger bodies one is sent at a time, so that a hold of the event loop is the work of one request.
HEAVY_BYTES = 64 * 1024
_HEAVY_CHANCE = 0.03
_FRACTIONS = (0.06, 0.1, 0.25, 0.5, 0.9, 0.99, 1.01)
_WAITS = ("wait_seconds", "timeout_seconds")
_SEGMENTS = (
    *(
        "",
        ".",
        "..",
        "%2e%2e",
        "%2F",
        "x%2Fy",
        "%00",
        "%0a",
        "%ff",
        "%",
        "%zz",
        "~",
        "@rival@full",
        "full@1",
        ".hidden",
    ),
    *(
        "-deadletter",
        "%40acme%40full",
        "a" * 255,
        "a" * 256,
        "a" * 600,
        "%F0%9F%98%80",
        "a%20b",
        "%ED%A0%80",
        "{queue}",
    ),
)
_TEXTS = (
    *(
        "",
        "x",
        "-1",
        "0",
        "1",
        "1.5",
        "1e400",
        "nan",
        "inf",
        "true",
        "TRUE",
        "1_0",
        "+1",
        "%00",
        "%ff",
        "9" * 30,
        "1" * 3000,
    ),
    *("%F0%9F%98%80", "a" * 300, "null", "[]", "0-0-0-0", "%2B1", "9007199254740993"),
)
_TYPES = (
    None,
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
)


@dataclass
class Request:
    """A request, with the facts that the checks of its answer need."""

    number: int
    operation: Operation
    caller: Caller
    path: str
    headers: dict[str, str]
    body: bytes | None
    #: The tenants whose payloads its answer may have in it.
    may_see: frozenset[str]
    chunked: bool = False
    #: What a large body is made of.
    made_of: str = ""
    began: float = field(default=0.0)
    ended: float = field(default=float("inf"))

    @property
    def heavy(self) -> bool:
        return self.body is not None and len(self.body) > HEAVY_BYTES

    def __str__(self) -> str:
        shown = {name: value for name, value in self.headers.items() if name != "Authorization"}
        body = "no body" if self.body is None else f"body of {len(self.body)} bytes {_shortened(self.body)!r}"
        of = f" ({self.made_of})" if self.made_of else ""
        line = f"{self.operation.verb} {self.path[:1000]}"
        return f"request {self.number}: {line} as {self.caller.name}, {shown}, {body}{of}"


class Requests:
    """Makes requests of a seed: the same number makes the same request, except for ids learned from answers."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def make(self, number: int, operation: Operation, caller: Caller, chance: Random) -> Request:
        headers = dict(caller.headers)
        if chance.random() < (0.9 if caller is OPERATOR else 0.05):
            headers["Holdfast-Tenant"] = chance.choice((*TENANTS, *TENANTS, "default"))
        if content_type := chance.choice(_TYPES):
            headers["Content-Type"] = content_type
        _add_strange_headers(headers, chance)
        tenant = caller.tenant or headers.get("Holdfast-Tenant", "default")
        may_see = frozenset({tenant})
        marker = MARKERS.get(tenant)
        if caller is OPERATOR and (operation.is_of_keys or operation.is_of_actors):
            # The path says whose it is.
            may_see, marker = frozenset(TENANTS), None
        elif caller.role is None:
            may_see = frozenset()
        body, made_of = self._body(operation, {"marker": marker, "number": number}, chance)
        path = self._path(operation, chance) + self._query(operation, chance)
        chunked = body is not None and chance.random() < 0.1
        return Request(number, operation, caller, path, headers, body, may_see, chunked, made_of)

    def _path(self, operation: Operation, chance: Random) -> str:
        return "/".join(self._segment(part, operation, chance) for part in operation.path.split("/"))

    def _segment(self, part: str, operation: Operation, chance: Random) -> str:
        if not part.startswith("{"):
            return part
        name = part[1:-1]
        if chance.random() < 0.05:
            return chance.choice(_SEGMENTS)
        if name == "actor":
            return chance.choice(operation.actors)
        if name == "queue" and operation.verb == "PUT" and chance.random() < 0.9:
            # Partitions only grow, and some settings stop all pushes.
            return f"settings-{chance.randrange(3)}"
        return quote(self._sampler.known(name, chance) or "fresh-0", safe="")

    def _query(self, operation: Operation, chance: Random) -> str:
        pairs = []
        for name, schema in operation.query:
            if name in _WAITS:
                # A long wait tests nothing more than a short one.
                if chance.random() < 0.5 or operation.path.endswith(("/wait", "/{request}")):
                    pairs.append((name, chance.choice(("0", "0.01", "0.1", "-1", "nan", "x", "1e400"))))
            elif chance.random() < 0.5:
                value = self._sampler.sample(schema, chance, None, name)
                written = quote("" if value is None else str(value).lower() if value in (True, False) else str(value))
                pairs.append((name, chance.choice(_TEXTS) if chance.random() < 0.15 else written))
        if chance.random() < 0.04:
            pairs.append((chance.choice(("unknown", "token", "", "%00", "count")), chance.choice(_TEXTS)))
        if pairs and chance.random() < 0.02:
            pairs.append(pairs[0])
        return "?" + "&".join(f"{name}={value}" for name, value in pairs) if pairs else ""

    def _body(self, operation: Operation, payload: dict[str, Any], chance: Random) -> tuple[bytes | None, str]:
        if chance.random() < _HEAVY_CHANCE:
            return self._heavy_body(operation, payload, chance)
        schema = operation.body
        if schema is None:
            return (orjson.dumps(hostile(chance)), "") if chance.random() < 0.1 else (None, "")
        kind = chance.random()
        if kind < 0.04:
            return None, ""
        if kind < 0.12:
            return orjson.dumps(hostile(chance)), ""
        if kind < 0.3:
            payload = payload | {"hostile": hostile(chance)}
        value = self._sampler.sample(schema, chance, payload)
        if kind > 0.7:
            value = mutated(value, chance)
        text = orjson.dumps(value)
        return (garbled(text, chance), "") if kind > 0.95 else (text, "")

    def _heavy_body(self, operation: Operation, payload: dict[str, Any], chance: Random) -> tuple[bytes, str]:
        """A value of the schema with something large in one place, or something large alone."""
        made_of = chance.choice(list(LARGE))
        size = int(operation.max_body * chance.choice(_FRACTIONS))
        large = orjson.Fragment(LARGE[made_of](size))
        value: Any = large
        if chance.random() < 0.8:
            # In one place only: a list may have the same payload a thousand times.
            value = _replaced(self._sampler.sample(operation.body or {}, chance, payload), chance, large)
        return orjson.dumps(value), made_of


def mutated(value: Any, chance: Random) -> Any:
    """The same with one thing changed."""
    if isinstance(value, dict) and value and chance.random() < 0.3:
        if chance.random() < 0.5:
            missing = chance.choice(list(value))
            return {key: entry for key, entry in value.items() if key != missing}
        return value | {
            chance.choice(("unknown", "", "elsewhere", "entries", "items", "tenant", "key")): hostile(chance)
        }
    return _replaced(value, chance, hostile(chance))


def garbled(text: bytes, chance: Random) -> bytes:
    """JSON text with something wrong in the text itself."""
    place = chance.randrange(len(text) + 1)
    match chance.randrange(7):
        case 0:
            return text[:place]
        case 1:
            return text[:place] + bytes([chance.randrange(256)]) + text[place:]
        case 2:
            return b'{"item":1,"lock_id":"x",' + text[1:]
        case 3:
            return b"\xef\xbb\xbf" + text
        case 4:
            return text.decode(errors="replace").encode("utf-16")
        case 5:
            return text + b" x"
        case _:
            return text + text


def _replaced(value: Any, chance: Random, new: Any) -> Any:
    """The value with the new one in place of one of its parts."""
    places = list(_places(value))
    if not places:
        return new
    path = chance.choice(places)
    return _put(value, path, new)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value[:5]))
    for key, entry in entries:
        yield (*path, key)
        yield from _places(entry, (*path, key))


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    first, *rest = path
    changed = value.copy()
    changed[first] = _put(value[first], tuple(rest), new)
    return changed


def _add_strange_headers(headers: dict[str, str], chance: Random) -> None:
    strange: Mapping[str, tuple[str, ...]] = {
        "Holdfast-Tenant": ("", "..", "@acme@x", "a" * 256, "rival", "é"),
        "Content-Encoding": ("gzip", "identity", "br"),
        "Origin": ("http://evil.example", "null"),
        "Expect": ("x",),
        "traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x" * 300),
    }
    if chance.random() < 0.03:
        name = chance.choice(list(strange))
        headers[name] = chance.choice(strange[name])


def _shortened(body: bytes, most: int = 200) -> bytes:
    return body if len(body) <= most else body[: most // 2] + b" ... " + body[-most // 2 :]
