"""Decides which actor calls are accepted: those of Holdfast's own processes, and public ones of other apps.

Every app in the same placement can call every actor through its own daprd, and no access-control policy of Dapr covers
that (1.18.2). daprd passes the headers of an actor call on to the actor's app, so Holdfast's processes prove with a
header that they share a secret. The secret itself is never sent: an app that also registers our actor types gets some
of our calls.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from typing import TYPE_CHECKING, Literal

from holdfast.errors import Forbidden, SettingsError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dapr.actor import Actor

    from holdfast.runtime.contract import ActorAddress

#: The header that proves that one of Holdfast's own processes is calling.
PROOF_HEADER = "holdfast-proof"
#: The secret that all processes of one installation share.
VARIABLE = "HOLDFAST_ACTOR_SECRET"
MIN_SECRET = 16

OtherApps = Literal["public", "token", "none"]

# Used without a shared secret: then no other process can prove itself to this one.
_RANDOM = secrets.token_bytes(32)


def has_shared_secret() -> bool:
    """Returns whether several processes of this installation can call each other's actors."""
    return bool(os.environ.get(VARIABLE) or os.environ.get("APP_API_TOKEN"))


class Proofs:
    """Makes and checks proofs; each is valid for one call only.

    The secret is HOLDFAST_ACTOR_SECRET, else derived from APP_API_TOKEN, which also belongs to one app and is the same
    for all of its processes, else random.
    """

    def __init__(self, secret: str | None = None) -> None:
        given = secret or os.environ.get(VARIABLE)
        if given is not None and len(given) < MIN_SECRET:
            raise SettingsError(f"{VARIABLE} is too short: it must have at least {MIN_SECRET} characters.")
        source = given or os.environ.get("APP_API_TOKEN")
        self._key = hashlib.sha256(b"holdfast actor calls\n" + source.encode()).digest() if source else _RANDOM

    def make(self, actor_type: str, actor_id: str, method: str, call_id: str, body: bytes) -> str:
        # No name contains a line feed.
        named = f"{actor_type}\n{actor_id}\n{method}\n{call_id}\n".encode()
        return hmac.digest(self._key, named + body, "sha256").hex()

    def prove(self, given: str, address: ActorAddress, method: str, call_id: str, body: bytes) -> bool:
        """Returns whether ``given`` proves this call."""
        made = self.make(address.type, address.id, method, call_id, body)
        return hmac.compare_digest(made, given) if given.isascii() else False


class Admission:
    """Limits the calls of other apps to ``public`` methods, to the same with a ``token``, or to none (``none``).

    An actor class defines which of its methods are public (``is_public``); without that, all are. ``check_token`` gets
    the token, the actor's type and the method, and raises an error if the token is not sufficient.
    """

    def __init__(
        self, other_apps: OtherApps = "public", check_token: Callable[[str, str, str], None] | None = None
    ) -> None:
        self._other_apps = other_apps
        self._check_token = check_token
        self._is_public: dict[str, Callable[[str, str], bool]] = {}

    def register(self, actor_class: type[Actor]) -> None:
        if (is_public := getattr(actor_class, "is_public", None)) is not None:
            self._is_public[actor_class.__name__] = is_public

    def knows(self, actor_type: str) -> bool:
        """Returns whether the type is one of Holdfast's own, which define what is public."""
        return actor_type in self._is_public

    def check(self, address: ActorAddress, method: str, headers: Mapping[str, str]) -> None:
        """Raises an error unless another app may make this call."""
        if PROOF_HEADER in headers:
            raise Unavailable(
                "The processes of this installation do not have the same secret, so they cannot call each other's "
                f"actors: give all of them the same {VARIABLE}."
            )
        if self._other_apps == "none":
            raise Forbidden("This installation accepts no actor calls from other apps.")
        is_public = self._is_public.get(address.type)
        if is_public is not None and not is_public(address.id, method):
            raise Forbidden("Other apps may call only the public methods of the default tenant's queues and instances.")
        if self._other_apps == "token" and self._check_token is not None:
            kind, _, token = headers.get("authorization", "").partition(" ")
            self._check_token(token.strip() if kind.lower() == "bearer" else "", address.type, method)
