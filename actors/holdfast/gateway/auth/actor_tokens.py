"""Checks the tokens of actor calls that come from other Dapr apps, where the server requires tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import Forbidden, Unauthorized
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.dapr_api.operations import OPERATIONS
from holdfast.names import DEFAULT_TENANT

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.gateway.auth.tokens import Tokens


def token_check(tokens: Callable[[], Tokens]) -> Callable[[str, str, str], None]:
    """Returns a function that checks a call's token, by the roles that the same calls need over REST.

    Other apps reach actors of the default tenant only, so a token bound to another tenant is always refused.
    """

    def check(token: str, actor_type: str, method: str) -> None:
        caller = tokens().caller(token.encode("latin-1"))
        if caller is None:
            raise Unauthorized("Unknown token." if token else None)
        caller.must_be(Role.OPERATOR if method in OPERATIONS.get(actor_type, ()) else Role.USER)
        if caller.bound and caller.tenant != DEFAULT_TENANT:
            raise Forbidden("This token is bound to another tenant than the actor's.")

    return check
