"""The REST interface, from the server's OpenAPI document."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

from generators.gateway import openapi
from generators.tables import code, prose, table

_HEADINGS = {
    "health": "Health and metrics",
    "queues": "Queues",
    "orchestrations": "Orchestrations",
    "schedules": "Schedules",
    "idempotency": "Idempotency",
    "inspection": "Inspection",
}
# These can come from every call, and are described once.
_COMMON = ("400", "401", "403", "405", "413", "429", "503")


def page() -> str:
    operations = [
        (_heading(operation["tags"][0]), verb.upper(), path, operation)
        for path, verbs in openapi()["paths"].items()
        for verb, operation in verbs.items()
    ]
    # Others come after these.
    order = dict(zip(_HEADINGS.values(), range(len(_HEADINGS)), strict=True))
    operations.sort(key=lambda one: (order.get(one[0], len(order)), one[0]))
    parts = []
    for heading, group in groupby(operations, key=lambda one: one[0]):
        parts.append(f"## {heading}")
        parts += [_operation(verb, path, operation) for _, verb, path, operation in group]
    return "\n\n".join(parts)


def _heading(tag: str) -> str:
    return _HEADINGS.get(tag, tag.capitalize())


def _operation(verb: str, path: str, operation: dict[str, Any]) -> str:
    text = operation.get("description") or operation["summary"]
    role = operation.get("x-holdfast-role")
    parts = [f"### {verb} `{path}`", prose(text if text.endswith(".") else f"{text}.")]
    if role:
        parts[1] += f" Role: `{role}`."
    parts += [
        _parameters(operation),
        _body(operation),
        _answers(operation["responses"], is_health=operation["tags"] == ["health"]),
    ]
    return "\n\n".join(part for part in parts if part)


def _parameters(operation: dict[str, Any]) -> str:
    # The header of the tenant is the same everywhere, and most names in paths need no explanation.
    rows = [
        (code(one["name"]), one["in"], *_described(one["schema"], one.get("description", "")))
        for one in operation.get("parameters", ())
        if one["in"] == "query" or (one["in"] == "path" and "description" in (one | one["schema"]))
    ]
    return table(("parameter", "in", "value", "default", "meaning"), rows)


def _body(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return ""
    (given,) = content.values()
    examples = (
        [given["example"]] if "example" in given else [one["value"] for one in given.get("examples", {}).values()]
    )
    parts = [_fields(given["schema"], "field of the body")]
    parts += [f"```json\n{json.dumps(example, ensure_ascii=False)}\n```" for example in examples]
    return "\n\n".join(part for part in parts if part)


def _answers(responses: dict[str, Any], *, is_health: bool) -> str:
    rows = []
    for status, response in sorted(responses.items()):
        if status in _COMMON and not is_health:
            continue
        content = response.get("content", {}).get("application/json", {})
        examples = content.get("examples", {})
        if status.startswith("2"):
            shown = ", ".join(code(name) for name in _properties(content.get("schema", {})))
            rows.append((status, shown or prose(response["description"])))
        else:
            rows.append((status, ", ".join(code(name) for name in examples) or prose(response["description"])))
    return table(("status", "fields of the answer, or `error_code`"), rows)


def _fields(schema: dict[str, Any], head: str) -> str:
    rows = [(code(name), *_described(field, "")) for name, field in _properties(schema).items()]
    return table((head, "value", "default", "meaning"), rows)


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    schema = _resolved(schema)
    found: dict[str, Any] = dict(schema.get("properties", {}))
    for kind in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(kind, ()):
            found |= _properties(part)
    return found


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    found: dict[str, Any] = openapi()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _described(schema: dict[str, Any], description: str) -> tuple[str, str, str]:
    default = code(json.dumps(schema["default"], ensure_ascii=False)) if "default" in schema else ""
    return _kind(schema), default, prose(description or schema.get("description", ""))


def _kind(schema: dict[str, Any]) -> str:
    schema = _resolved(schema)
    kinds = [part for kind in ("anyOf", "oneOf") for part in schema.get(kind, ())]
    if kinds:
        return " or ".join(dict.fromkeys(_kind(part) for part in kinds))
    if "enum" in schema:
        return ", ".join(code(str(value)) for value in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"array of {_kind(schema.get('items', {}))}"
    least, most = (schema.get(name, schema.get(f"exclusive{name.title()}")) for name in ("minimum", "maximum"))
    if least is not None and most is not None:
        return f"{kind} from {least:.16g} to {most:.16g}"
    return f"{kind} from {least:.16g}" if least is not None else str(kind)
