"""The web UI at ``/``: static files of this folder, without anything from other servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOLDER = Path(__file__).parent
_PAGES = {"index.html": "/", "docs.html": "/docs"}
#: Files by path. They contain no data, so they need no token.
FILES = {
    _PAGES.get(file.name, f"/page/{file.relative_to(_FOLDER).as_posix()}"): file
    for file in sorted(_FOLDER.rglob("*"))
    if file.suffix in _KINDS
}
# A browser finds a library by a path: names need an import map, an inline script, which the policy below forbids.
_IMPORTS = {b'from"preact"': b'from"./preact.mjs"'}
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
    for path, file in FILES.items():
        content = file.read_bytes()
        for name, place in _IMPORTS.items():
            content = content.replace(name, place)
        app.get(path, include_in_schema=False)(_sender(content, _KINDS[file.suffix]))


def _sender(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def send() -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return send
