"""Who calls, and what that lets them do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from holdfast.errors import Forbidden
from holdfast.identity import DEFAULT_TENANT

#: Where the scope of a request has its caller.
CALLER = "holdfast.caller"


class Role(IntEnum):
    """Each may do what those before it may."""

    READER = 1
    USER = 2
    OPERATOR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Caller:
    """Without tokens everybody is an operator."""

    #: Whose queues, instances and keys it sees.
    tenant: str = DEFAULT_TENANT
    role: Role = Role.OPERATOR
    #: Of its token, for the audit line.
    name: str = ""
    #: Its token belongs to the tenant: no header changes that.
    bound: bool = False

    def must_be(self, role: Role) -> None:
        """Raises Forbidden."""
        if self.role < role:
            raise Forbidden(f"This needs a token of the role {role.word}; this one is of a {self.role.word}.")

    def must_run_the_server(self) -> None:
        """What is below tenants, where no tenant's caller has any business. Raises Forbidden."""
        self.must_be(Role.OPERATOR)
        if self.bound:
            raise Forbidden("This shows what belongs to all tenants: it needs a token that is bound to none.")


#: Whoever asks for what anybody may see, and daprd, which proves itself elsewhere.
NOBODY = Caller(role=Role.READER)
