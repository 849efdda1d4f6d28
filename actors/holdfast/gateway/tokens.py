"""The tokens there are, and whom each stands for. Kept as digests: no secret stays in memory."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING

from holdfast.errors import SettingsError
from holdfast.gateway.callers import Caller
from holdfast.identity import VISIBLE

if TYPE_CHECKING:
    from collections.abc import Mapping

MIN_TOKEN, MAX_TOKEN = 16, 1000

_NOBODY = (b"", None)


def digest_of(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


class Tokens:
    """Looked up by digest: how long that takes says nothing of the tokens, nor how many there are."""

    def __init__(self, callers: Mapping[bytes, Caller]) -> None:
        self._callers = {digest: (digest, caller) for digest, caller in callers.items()}

    @classmethod
    def of_one(cls, token: str) -> Tokens:
        """An operator of all tenants. Raises SettingsError for what nobody could send, or anybody guess."""
        if not (MIN_TOKEN <= len(token) <= MAX_TOKEN and re.fullmatch(f"{VISIBLE}+", token)):
            raise SettingsError(
                f"A token has {MIN_TOKEN} to {MAX_TOKEN} visible characters of ASCII, and this one has not: "
                "mind spaces, and the line end of a file it was read from."
            )
        return cls({digest_of(token.encode()): Caller(name="token")})

    def __len__(self) -> int:
        return len(self._callers)

    def caller(self, token: bytes) -> Caller | None:
        digest = digest_of(token)
        known, caller = self._callers.get(digest, _NOBODY)
        return caller if hmac.compare_digest(known, digest) else None
