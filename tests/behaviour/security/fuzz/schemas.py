"""Values that a JSON schema describes, with known names where a name has to exist to matter."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

from tests.behaviour.security.fuzz.server import INSTANCES, KEYS, QUEUES, SCHEDULES, TENANTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

#: Names that callers may make up, few of them: each is an actor of the server.
_FRESH = tuple(f"fresh-{number}" for number in range(6))
_KNOWN: dict[str, tuple[str, ...]] = {
    "queue": (*QUEUES, *(f"{queue}-deadletter" for queue in QUEUES), *_FRESH),
    "instance_id": (*INSTANCES, *_FRESH),
    "name": ("echo", "waiting", "failing", "parent", "reader", "serving", "unknown", "add", *SCHEDULES),
    "orchestration": ("echo", "waiting", "unknown"),
    "schedule": SCHEDULES,
    "request": ("add", "known", "unknown"),
    "request_id": ("known", "other"),
    "cron": ("* * * * *", "0 0 29 2 *", "0 0 29 2 1", "*/0 * * * *", "0 0 30 2 *"),
    "timezone": ("UTC", "Europe/Berlin", "America/New_York", "../UTC"),
    "from": ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
    "to": ("2026-01-02T00:00:00Z", "9999-12-31T23:59:59-12:00"),
    "starts_at": ("2030-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9998-12-31T00:00:00Z"),
    "event": ("go", "letters", "never"),
    "tenant": (*TENANTS, "~", "default"),
    "tenant_id": (*TENANTS, ""),
    "key": (*KEYS, "fresh", "with space", "é"),
    "dead_letter_queue": ("full-deadletter", "full", "fresh-0"),
    "of": ("activity", "sub"),
    "owner": ("abcdefghijklmnop", "worker-1"),
    "status": ("RUNNING", "COMPLETED", "FAILED", "SUSPENDED"),
    "details": ('{"done": 120}', "null", '"x"', "[[[", "NaN", '"' + "x" * 100_000 + '"'),
}
#: The call of the activity that is awaited.
_CALLED = {"execution_id": 1, "scheduled_seq": 2}
# Which learned ids stand for which field.
_LEARNED = {
    "lock_id": "lock",
    "lock_id_prefix": "lock",
    "id": "item",
    "ids": "item",
    "owner": "owner",
    "cursor": "cursor",
}
_MOST_LEARNED = 200
_LONG_LIST = 1100


class Learned:
    """Ids that answers had in them, of all tenants together: a caller may send those of another one."""

    def __init__(self) -> None:
        self._pools: dict[str, list[str]] = {kind: [] for kind in ("lock", "item", "owner", "cursor", "instance")}

    def learn(self, answer: Any, chance: Random) -> None:
        """From the JSON object that was answered."""
        if not isinstance(answer, dict):
            return
        for kind, names in (
            *(("lock", ("lock_id",)), ("item", ("ids",)), ("owner", ("owner",)), ("cursor", ("next_cursor",))),
            ("instance", ("instance_id",)),
        ):
            for name in names:
                found = answer.get(name)
                self._add(kind, found[:3] if isinstance(found, list) else [found], chance)
        for name, kind, key in (("messages", "item", "id"), ("locks", "lock", "lock_id_prefix")):
            found = answer.get(name)
            if isinstance(found, list):
                self._add(kind, [entry.get(key) for entry in found[:3] if isinstance(entry, dict)], chance)

    def of(self, kind: str, chance: Random) -> str | None:
        pool = self._pools[kind]
        # Mostly a recent one: locks expire.
        return chance.choice(pool[-20:] if chance.random() < 0.7 else pool) if pool else None

    def _add(self, kind: str, values: list[Any], chance: Random) -> None:
        pool = self._pools[kind]
        for value in values:
            if isinstance(value, str) and value not in pool:
                pool.append(value)
        del pool[:-_MOST_LEARNED]


class Sampler:
    """Makes values for schemas. ``payload`` is what stands where any JSON value may be."""

    def __init__(self, models: Mapping[str, Any], learned: Learned) -> None:
        self._models = models
        self._learned = learned

    def known(self, name: str, chance: Random) -> str | None:
        """A name or an id that may mean something to the server; None for a field that is neither."""
        kind = _LEARNED.get(name)
        if kind is not None and chance.random() < 0.8 and (learned := self._learned.of(kind, chance)) is not None:
            return learned[:8] if name == "lock_id_prefix" and chance.random() < 0.5 else learned
        if name == "instance_id" and chance.random() < 0.2:
            return self._learned.of("instance", chance)
        return chance.choice(_KNOWN[name]) if name in _KNOWN else None

    def sample(self, schema: Mapping[str, Any], chance: Random, payload: Any, name: str = "") -> Any:
        """A value that the schema allows, as a rule."""
        if "$ref" in schema:
            return self.sample(self._models[schema["$ref"].rpartition("/")[2]], chance, payload, name)
        for choice in ("anyOf", "oneOf", "allOf"):
            if choice in schema:
                return self.sample(chance.choice(schema[choice]), chance, payload, name)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return chance.choice(schema["enum"])
        if (known := self.known(name, chance)) is not None and schema.get("type") == "string":
            return known
        match schema.get("type"):
            case "object":
                return self._object(schema, chance, payload)
            case "array":
                return self._array(schema, chance, payload, name)
            case "string":
                return self._string(schema, chance)
            case "integer" if name in _CALLED and chance.random() < 0.7:
                return _CALLED[name]
            case "integer":
                return chance.choice([*_bounds(schema), chance.randrange(0, 100)])
            case "number":
                return chance.choice([*_bounds(schema), chance.random()])
            case "boolean":
                return chance.random() < 0.5
            case "null":
                return None
            case _:
                return payload

    def _object(self, schema: Mapping[str, Any], chance: Random, payload: Any) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            key: self.sample(field, chance, payload, key)
            for key, field in schema.get("properties", {}).items()
            if key in required or chance.random() < 0.4
        }

    def _array(self, schema: Mapping[str, Any], chance: Random, payload: Any, name: str) -> list[Any]:
        entry = schema.get("items", {})
        if chance.random() < 0.02:
            return [self.sample(entry, chance, payload, name)] * chance.choice((999, 1000, 1001, _LONG_LIST))
        return [self.sample(entry, chance, payload, name) for _ in range(chance.choice((0, 1, 1, 2, 5)))]

    def _string(self, schema: Mapping[str, Any], chance: Random) -> str:
        if "examples" in schema and chance.random() < 0.5:
            return str(chance.choice(schema["examples"]))
        length = chance.choice((1, 5, 16, schema.get("maxLength", 50), schema.get("maxLength", 50) + 1))
        return "".join(chance.choices(string.ascii_lowercase, k=max(length, schema.get("minLength", 0))))


def _bounds(schema: Mapping[str, Any]) -> Iterator[int | float]:
    for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "default"):
        if isinstance(bound := schema.get(name), int | float):
            yield from (bound, bound - 1, bound + 1)
