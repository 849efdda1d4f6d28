"""Removes passwords and other secrets from database URLs and from messages.

The text is split as libpq does it, not with a URL parser: those fail on several hosts, and take an ``@`` or ``/`` in a
password for a part of the address. In doubt, more is hidden rather than less.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "*****"

_SQLITE = "sqlite"
_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_PARAMETER = re.compile(r"[?&]([^=?&]+)=([^&]*)")
_NAME = re.compile(r"[a-z_]+", re.IGNORECASE)
# A host with an optional port: text after a colon that is not a number may be a password.
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")


def without_secrets(url: str) -> str:
    """Returns the URL with its user but without password and options, since some options are passwords too."""
    scheme, found, rest = url.partition("://")
    if not found:
        return HIDDEN
    address, _, _ = rest.partition("?")
    if scheme == _SQLITE:
        return f"{scheme}://{address}"
    authority, slash, database = address.partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    # A later "@" may belong to a password that has a slash or a question mark.
    if "@" in database or "@" in rest.partition("/")[0][len(authority) :]:
        return f"{scheme}://{HIDDEN}"
    if not all(map(_HOST.fullmatch, hosts.split(","))) or set(database) & set("&;="):
        return f"{scheme}://{HIDDEN}"
    return f"{scheme}://{userinfo.partition(':')[0]}{at}{hosts}{slash}{database}"


def redact(text: str, url: str) -> str:
    """Returns a message of another library without the URL and its secrets."""
    for secret in sorted({url, *_secrets(url)}, key=len, reverse=True):
        if secret:
            text = text.replace(secret, HIDDEN)
    return text


def _secrets(url: str) -> set[str]:
    scheme, _, rest = url.partition("://")
    if scheme == _SQLITE:
        return set()
    raw = {value for name, value in _PARAMETER.findall(rest) if unquote(name).lower() in _SECRET}
    address, _, query = rest.partition("?")
    for piece in query.split("&"):
        name, is_parameter, _ = piece.partition("=")
        # libpq repeats a mistyped parameter in its message.
        if not is_parameter or not _NAME.fullmatch(name):
            raw |= {piece, name}
    # A misplaced parameter is taken for a part of the database name.
    for piece in re.split("[&;]", address.partition("/")[2])[1:]:
        raw |= {piece, piece.partition("=")[2]}
    for host in address.partition("/")[0].rpartition("@")[2].split(","):
        if not _HOST.fullmatch(host):
            raw.add(host.partition(":")[2])
    for before in (rest.partition("/")[0], address.partition("/")[0], address):
        password = before.rpartition("@")[0].partition(":")[2]
        # libpq takes a piece of an unquoted password for the host or the port, and shows it in its message.
        raw |= {password, *re.split("[@/?]", password)}
    return raw | {unquote(secret) for secret in raw}
