"""What the address of a database may tell to nobody: where it is in it, and the address and messages without it.

Cut out of the text as libpq would, not by a parser of addresses: those stumble over several hosts, and take an ``@`` or
``/`` of a password for a part of the address. Where it is not clear what is what, more is hidden rather than less.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "*****"

_SQLITE = "sqlite"
_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_PARAMETER = re.compile(r"[?&]([^=?&]+)=([^&]*)")
_NAME = re.compile(r"[a-z_]+", re.IGNORECASE)
# A host, perhaps with a port: what follows a colon and is no number may be a password.
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")


def without_secrets(url: str) -> str:
    """Which database it is: the user, but no password, and no options, of which some are passwords too."""
    scheme, found, rest = url.partition("://")
    if not found:
        return HIDDEN
    address, _, _ = rest.partition("?")
    if scheme == _SQLITE:
        return f"{scheme}://{address}"
    authority, slash, database = address.partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    # One that follows later is of a password with a slash or a question mark in it, or may be.
    if "@" in database or "@" in rest.partition("/")[0][len(authority) :]:
        return f"{scheme}://{HIDDEN}"
    if not all(map(_HOST.fullmatch, hosts.split(","))) or set(database) & set("&;="):
        return f"{scheme}://{HIDDEN}"
    return f"{scheme}://{userinfo.partition(':')[0]}{at}{hosts}{slash}{database}"


def hidden_in(text: str, url: str) -> str:
    """A message of somebody else's, with nothing in it that the address alone knows."""
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
        # One that is mistyped is told of by libpq as it stands.
        if not is_parameter or not _NAME.fullmatch(name):
            raw |= {piece, name}
    # And what should have been a parameter is taken for the name of the database.
    for piece in re.split("[&;]", address.partition("/")[2])[1:]:
        raw |= {piece, piece.partition("=")[2]}
    for host in address.partition("/")[0].rpartition("@")[2].split(","):
        if not _HOST.fullmatch(host):
            raw.add(host.partition(":")[2])
    for before in (rest.partition("/")[0], address.partition("/")[0], address):
        password = before.rpartition("@")[0].partition(":")[2]
        # Where it should have been quoted, libpq takes a piece of it for the host or the port, and says so.
        raw |= {password, *re.split("[@/?]", password)}
    return raw | {unquote(secret) for secret in raw}
