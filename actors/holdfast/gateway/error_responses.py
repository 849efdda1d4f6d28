"""Error responses: flat JSON with a stable code and the right status, never a stack trace."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from holdfast.errors import HoldfastError, InvalidRequest, MethodNotAllowed, NotFound
from holdfast.runtime.serialization import dump

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.types import Send

log = logging.getLogger(__name__)

_RETRY_AFTER_SECONDS = 1
#: The maximal length of an error message, in characters.
MAX_MESSAGE = 4096

#: The error that callers get for a bug of the server.
FAULT = HoldfastError("Internal error: see the server's log for the reason.")


def error_body(error: HoldfastError) -> dict[str, Any]:
    # Some messages repeat what the caller sent, which may be of any length.
    message = str(error.message)
    shown = message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…"
    return {"success": False, "message": shown, "error_code": error.code, **error.details}


def error_response(error: HoldfastError) -> Response:
    headers: dict[str, str] = {}
    if error.status in (429, 503):
        headers["Retry-After"] = str(error.details.get("retry_after", _RETRY_AFTER_SECONDS))
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(error.allowed)
    return Response(dump(error_body(error)), error.status, headers, "application/json")


async def send_error(send: Send, error: HoldfastError) -> None:
    """Sends an error from an ASGI application outside FastAPI."""
    response = error_response(error)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})


def install(app: FastAPI) -> None:
    """Installs the mapping from exceptions to responses."""

    @app.exception_handler(HoldfastError)
    async def designed(request: Request, error: HoldfastError) -> Response:
        if error.status >= 500:
            log.warning("%s %s: %s", request.method, request.url.path, error)
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
        return error_response(InvalidRequest(f"{place}: {first['msg']}" if place else str(first["msg"])))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "").split(", ")
            return error_response(
                MethodNotAllowed(f"{request.url.path} does not support {request.method}.", allowed=allowed)
            )
        if error.status_code == 404:
            return error_response(NotFound("This path does not exist."))
        return error_response(InvalidRequest(str(error.detail)))

    @app.exception_handler(Exception)
    async def fault(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return error_response(FAULT)
