"""The authenticated caller of a request: tenant, role and token name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from holdfast.errors import Forbidden
from holdfast.names import DEFAULT_TENANT

#: The key of the caller in the ASGI scope.
CALLER = "holdfast.caller"


class Role(IntEnum):
    """The roles, in ascending order: each includes the permissions of the ones before it."""

    READER = 1
    USER = 2
    OPERATOR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. On a server without tokens every caller is an operator."""

    #: The tenant whose queues, instances and keys the caller sees.
    tenant: str = DEFAULT_TENANT
    role: Role = Role.OPERATOR
    #: The name of the token, for the audit log.
    name: str = ""
    #: Whether the token is bound to the tenant, so that no header can choose another one.
    bound: bool = False

    def must_be(self, role: Role) -> None:
        """Raises Forbidden when the caller's role is lower than this one."""
        if self.role < role:
            raise Forbidden(f"This call needs the role {role.word}; this token has the role {self.role.word}.")

    def require_operator(self) -> None:
        """Raises Forbidden unless the caller is an operator of all tenants. For calls that bypass tenants."""
        self.must_be(Role.OPERATOR)
        if self.bound:
            raise Forbidden("This call reaches all tenants: it needs a token that is not bound to a tenant.")


#: The caller of public paths, and daprd, whose token the Dapr host checks.
ANONYMOUS = Caller(role=Role.READER)
