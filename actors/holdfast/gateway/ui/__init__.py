"""The web UI at ``/``: static files of this folder, without anything from other servers."""

from __future__ import annotations

from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING

from fastapi import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: File names by path. The files contain no data, so they need no token.
FILES = {
    "/" if file.name == "index.html" else f"/page/{file.name}": file.name
    for file in resources.files(__package__).iterdir()
    if PurePath(file.name).suffix in _KINDS
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        # The browser itself refuses scripts that write HTML.
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def install(app: FastAPI) -> None:
    for path, name in FILES.items():
        content = resources.files(__package__).joinpath(name).read_bytes()
        app.get(path, include_in_schema=False)(_sender(content, _KINDS[PurePath(name).suffix]))


def _sender(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def send() -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return send
