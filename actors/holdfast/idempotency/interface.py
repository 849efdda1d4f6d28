"""The record's actor methods: they take and return the JSON objects of the REST interface.

A refusal comes back in a successful call: ``{"success": False, "message": …, "error_code": …}``.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import Any

from dapr.actor import ActorInterface

from holdfast.identity import DEFAULT_TENANT, check_tenant

IDEMPOTENCY_TYPE = "IdempotencyActor"


def record_id(tenant: str, key: str) -> str:
    """The actor that keeps a record. Keys may hold any characters, so their hash stands for them.

    No two pairs have the same: a tenant has no ``@`` in it, and all hashes are of one length.
    """
    return f"{check_tenant(tenant or DEFAULT_TENANT)}@{hashlib.sha256(key.encode()).hexdigest()}"


class IdempotencyActorInterface(ActorInterface):
    @abstractmethod
    async def Begin(self, data: dict[str, Any]) -> dict[str, Any]:
        """``{key, owner, lease_seconds}``: answers whether to run it, or what came of it."""

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
    async def Get(self) -> dict[str, Any]: ...
