"""Idempotency over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import Forbidden, InvalidRequest
from holdfast.gateway import idempotency_documents as documents
from holdfast.gateway.callers import Role
from holdfast.gateway.endpoints import Endpoint
from holdfast.idempotency.interface import IDEMPOTENCY_TYPE, record_id
from holdfast.idempotency.requests import MAX_KEY
from holdfast.identity import OWN_TENANT
from holdfast.runtime.refusals import accepted
from holdfast.runtime.serialization import dump, load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.gateway.endpoints import Call
    from holdfast.runtime.contract import HostClient

Answer = dict[str, Any]


class Idempotency:
    """What each call does: which record it asks, and for what."""

    def __init__(self, client: HostClient) -> None:
        self._client = client

    def endpoints(self) -> Sequence[Endpoint]:
        one = "/idempotency/{tenant}/{key}"
        return [
            Endpoint("POST", f"{one}/begin", self.begin, documents.BEGIN, Role.USER),
            Endpoint("POST", f"{one}/commit", self._sending("Commit"), documents.COMMIT, Role.USER),
            Endpoint("POST", f"{one}/fail", self._sending("Fail"), documents.FAIL, Role.USER),
            Endpoint("POST", f"{one}/renew", self._sending("Renew"), documents.RENEW, Role.USER),
            Endpoint("GET", one, self.get, documents.GET, Role.READER),
        ]

    async def begin(self, call: Call) -> Answer:
        tenant, key = _names(call)
        _, data = await call.json_object(optional=True)
        for name in ("tenant", "key"):
            if name in data:
                raise InvalidRequest(f"{name}: belongs into the path")
        return await self._ask(call, "Begin", data | {"tenant": tenant, "key": key})

    async def get(self, call: Call) -> Answer:
        return await self._ask(call, "Get", None)

    def _sending(self, method: str) -> Callable[[Call], Awaitable[Answer]]:
        """Hands the request's body on to the actor, which is the one to check it."""

        async def send(call: Call) -> Answer:
            _, data = await call.json_object()
            return await self._ask(call, method, data)

        return send

    async def _ask(self, call: Call, method: str, data: Any) -> Answer:
        body = b"" if data is None else dump(data)
        answer = await self._client.invoke_method(IDEMPOTENCY_TYPE, record_id(*_names(call)), method, body)
        return accepted(load(answer))


def _names(call: Call) -> tuple[str, str]:
    tenant, key = call.parameters
    if not key or len(key) > MAX_KEY or "\0" in key or "\ufffd" in key:
        raise InvalidRequest(
            f"This key is not valid: it must have 1 to {MAX_KEY} characters of UTF-8, "
            "URL-encoded, without U+0000 and U+FFFD."
        )
    caller = call.caller
    if tenant in ("", OWN_TENANT):
        tenant = caller.tenant
    if caller.bound and tenant != caller.tenant:
        # Before anything is looked up, so that it says nothing of what is there.
        raise Forbidden("This token belongs to another tenant than the one the path names.")
    return tenant, key
