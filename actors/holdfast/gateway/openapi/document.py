"""``/openapi.json``: the document that FastAPI generates, with the endpoints of our router added."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from fastapi import Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from holdfast.idempotency.requests import MAX_KEY
from holdfast.names import DEFAULT_TENANT, ID_PATTERN, MAX_ID_LENGTH, OWN_TENANT
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from fastapi import FastAPI

    from holdfast.gateway.routing import Endpoint, Endpoints

_MODELS = "#/components/schemas/{model}"
_ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID_LENGTH, "pattern": ID_PATTERN}
#: Path parameters, or those of one verb, with schemas other than that of an id.
_SCHEMAS: dict[str, dict[str, Any]] = {
    "key": {"type": "string", "minLength": 1, "maxLength": MAX_KEY},
    "POST request": _ID | {"description": "The name of the request, as the orchestration declares it."},
    "GET request": {"type": "string", "minLength": 1, "maxLength": 255, "description": "The id of the request."},
    "tenant": {"anyOf": [_ID, {"const": OWN_TENANT}], "description": "~ is the caller's own tenant."},
}
_TENANT = {
    "name": "Holdfast-Tenant",
    "in": "header",
    "required": False,
    "description": "The tenant, for a token that is not bound to one.",
    "schema": _ID | {"default": DEFAULT_TENANT},
}
_EXAMPLES = {
    "queue": "orders",
    "id": "0-0-0-0",
    "lock_id_prefix": "kX3vQ1",
    "instance_id": "order-17",
    "name": "checkout",
    "event": "approved",
    "request": "add-line",
    "tenant": "acme",
    "key": "invoice-17",
}


def install(app: FastAPI, endpoints: Endpoints) -> None:
    """Adds the route. Its answer is made once, in a thread: it takes longer than a request may hold the event loop."""
    made: asyncio.Future[bytes] | None = None

    @app.get("/openapi.json", include_in_schema=False)
    async def document() -> Response:
        nonlocal made
        if made is None:
            made = asyncio.ensure_future(asyncio.to_thread(lambda: dump(_describe(app, endpoints))))
        return Response(await asyncio.shield(made), media_type="application/json")


def _describe(app: FastAPI, endpoints: Endpoints) -> dict[str, Any]:
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
    models: dict[str, Any] = schema.setdefault("components", {}).setdefault("schemas", {})
    for endpoint in endpoints.all:
        schema["paths"].setdefault(endpoint.path, {})[endpoint.verb.lower()] = _operation(endpoint, models)
    return schema


def _operation(endpoint: Endpoint, models: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = _resolved(endpoint.document, models)
    path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "example": _EXAMPLES[name],
            "schema": _SCHEMAS.get(f"{endpoint.verb} {name}", _SCHEMAS.get(name, _ID)),
        }
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    words = endpoint.path.replace("{queue}", "").replace("{instance_id}", "one").replace("{name}", "")
    identity = "_".join(re.findall(r"[a-z]+", f"{endpoint.verb.lower()}/{words}"))
    return operation | {
        "operationId": identity,
        "parameters": [*path, *operation.get("parameters", ()), _TENANT],
        "x-holdfast-role": endpoint.role.word,
    }


def _resolved(value: Any, models: dict[str, Any]) -> Any:
    """Returns the document with its models as references, and adds the models' schemas to ``models``."""
    if isinstance(value, type) and issubclass(value, BaseModel):
        described = value.model_json_schema(ref_template=_MODELS)
        models.update(described.pop("$defs", {}))
        models[value.__name__] = described
        return {"$ref": _MODELS.format(model=value.__name__)}
    if isinstance(value, dict):
        return {key: _resolved(entry, models) for key, entry in value.items()}
    if isinstance(value, list):
        return [_resolved(entry, models) for entry in value]
    return value
