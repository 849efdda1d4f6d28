"""The known tokens and their callers. Tokens are stored as digests, so that no secret stays in memory."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING

from holdfast.errors import SettingsError
from holdfast.gateway.auth.principal import Caller
from holdfast.names import VISIBLE

if TYPE_CHECKING:
    from collections.abc import Mapping

MIN_TOKEN, MAX_TOKEN = 16, 1000

_UNKNOWN = (b"", None)


def digest_of(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


class Tokens:
    """Maps tokens to callers. Lookup is by digest, so its duration reveals nothing about the tokens."""

    def __init__(self, callers: Mapping[bytes, Caller]) -> None:
        self._callers = {digest: (digest, caller) for digest, caller in callers.items()}

    @classmethod
    def of_one(cls, token: str) -> Tokens:
        """Returns a single token, for an operator of all tenants. Raises SettingsError for an unfit one."""
        if not (MIN_TOKEN <= len(token) <= MAX_TOKEN and re.fullmatch(f"{VISIBLE}+", token)):
            raise SettingsError(
                f"A token must have {MIN_TOKEN} to {MAX_TOKEN} visible ASCII characters, and this one does not: "
                "check for spaces, and for the line end of a file it was read from."
            )
        return cls({digest_of(token.encode()): Caller(name="token")})

    def __len__(self) -> int:
        return len(self._callers)

    def caller(self, token: bytes) -> Caller | None:
        digest = digest_of(token)
        known, caller = self._callers.get(digest, _UNKNOWN)
        return caller if hmac.compare_digest(known, digest) else None
