"""The actor methods of a record: they take and return the JSON objects of the REST interface.

A refusal comes back in a successful call: ``{"success": False, "message": …, "error_code": …}``.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import Any

from dapr.actor import ActorInterface

from holdfast.names import DEFAULT_TENANT, check_tenant


def record_id(tenant: str, key: str) -> str:
    """Returns the id of the actor that has a record. It contains the key's hash, as a key may have any characters.

    Each pair has its own id: a tenant has no ``@``, and all hashes have the same length.
    """
    return f"{check_tenant(tenant or DEFAULT_TENANT)}@{hashlib.sha256(key.encode()).hexdigest()}"


def tenant_of(actor_id: str) -> str:
    """Returns the tenant of the record with this actor id."""
    return actor_id.partition("@")[0]


class IdempotencyActorInterface(ActorInterface):
    @abstractmethod
    async def Begin(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{key, owner, lease_seconds}``: returns whether to run the effect, or the result of the earlier success."""

    @abstractmethod
    async def Commit(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{owner, result, retention_seconds}``"""

    @abstractmethod
    async def Fail(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{owner, error}``"""

    @abstractmethod
    async def Renew(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{owner, lease_seconds}``"""

    @abstractmethod
    async def Delete(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{incarnation}``: deletes the record of an instance that was deleted, unless its effect is running."""

    @abstractmethod
    async def Get(self) -> dict[str, Any]: ...
