"""The settings of servers, workers, queues and tenants, from their definitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from generators.commands import default, meaning, option_list
from generators.tables import code, prose, table
from holdfast.cli.dev import dev
from holdfast.cli.queue import queue
from holdfast.cli.serve import serve
from holdfast.cli.worker import worker
from holdfast.gateway.quotas.quotas import QuotaTable
from holdfast.pushpop.api.config import QueueConfig

if TYPE_CHECKING:
    from pydantic import BaseModel

_COMMANDS = {
    "Server": ("`holdfast serve`", serve),
    "Worker": ("`holdfast worker`", worker),
    "Development": ("`holdfast dev`", dev),
    "Commands that call a server": ("`holdfast queue`, `orchestration`, `schedule` and `idempotency`", None),
}
_CONNECTION = ("url", "token_file", "token", "tenant", "timeout", "as_json")


def page() -> str:
    parts = []
    for heading, (names, command) in _COMMANDS.items():
        # Every command of these groups has the same options for the connection.
        found = option_list(command or queue.commands["list"])
        rows = [
            (code(_key(str(one.envvar))), code(str(one.envvar)), code(default(one)), meaning(one))
            for one in found
            if one.envvar and (command or one.name in _CONNECTION)
        ]
        parts += [f"## {heading}", f"Options of {names}:"]
        parts.append(table(("key in `holdfast.toml`", "variable", "default", "meaning"), rows))
    parts += ["## Queue", "`PUT /queue/{queue}/config`, `client.queue(…).set_config(…)`, `holdfast queue config`:"]
    parts.append(_fields(QueueConfig))
    parts += [
        "## Tenant",
        'Tables `[tenants.NAME]` of `holdfast.toml`, and `[tenants."*"]` for all others; null is no limit:',
        _fields(QuotaTable),
    ]
    return "\n\n".join(parts)


def _key(variable: str) -> str:
    return variable.removeprefix("HOLDFAST_").replace("_", "-").lower()


def _fields(model: type[BaseModel]) -> str:
    fields: dict[str, Any] = model.model_json_schema()["properties"]
    rows = [
        (code(name), _limits(field), code(json.dumps(field.get("default"))), prose(field.get("description", "")))
        for name, field in fields.items()
    ]
    return table(("key", "value", "default", "meaning"), rows)


def _limits(field: dict[str, Any]) -> str:
    kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
    nullable = " or null" if len(kinds) < len(field.get("anyOf", [field])) else ""
    (kind,) = kinds
    least = kind.get("minimum", kind.get("exclusiveMinimum"))
    if least is None:
        return str(kind["type"]) + nullable
    sign = "above" if "exclusiveMinimum" in kind else "from"
    return f"{kind['type']} {sign} {least:g} to {kind['maximum']:.16g}{nullable}"
