"""Checks the header Host, as a guard against DNS rebinding.

To the browser, a page whose own host name is made to resolve to this server is of the same site, so the check of the
origin does not detect it. Its requests still have the page's host name in the header Host.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

ANY_NAME = "*"
_NAME = re.compile(r"(\*\.)?[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63}){0,31}")


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


class HostNames:
    """Decides which values of the header Host are accepted.

    Names from ``--allowed-host`` are accepted in addition to loopback. Without any, a server with tokens accepts every
    name. A server without tokens accepts loopback names only, or, when it listens beyond loopback, also IP addresses: a
    page that calls an address was loaded from that address, so no name was rebound.
    """

    def __init__(self, allowed: Collection[str] = (), *, loopback: bool, tokens: bool) -> None:
        names = {_checked(name) for name in allowed}
        self._exact = frozenset(names)
        self._suffixes = tuple(name[1:] for name in names if name.startswith("*."))
        self._addresses = not (names or loopback)
        #: Returns whether one value is accepted; None when all are.
        self.accepts: Callable[[bytes], bool] | None = lru_cache(maxsize=64)(self._accepts)
        if ANY_NAME in names or (tokens and not names):
            self.accepts = None
        self.refusal = (
            "This server does not accept this name in the header Host: allow it with --allowed-host."
            if tokens or names or not loopback
            else "Without a token this server answers only to localhost and loopback addresses: set --token, or "
            "allow the name with --allowed-host."
        )

    def _accepts(self, host: bytes) -> bool:
        text = host.decode("latin-1").lower()
        name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
        return (
            name in self._exact
            or name.endswith(self._suffixes)
            or is_loopback(name)
            or (self._addresses and _is_address(name))
        )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _checked(name: str) -> str:
    lower = name.lower()
    if lower == ANY_NAME or _NAME.fullmatch(lower):
        return lower
    if _is_address(lower.strip("[]")):
        return lower.strip("[]")
    raise SettingsError(
        f"'{name[:300]}' is not a host name for --allowed-host: give a name or an address without a port, "
        "'*.example.com' for all names below one, or '*' for every name."
    )
