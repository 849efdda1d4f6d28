"""The REST endpoints of idempotency records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import Forbidden, InvalidRequest, NotFound
from holdfast.gateway.auth.principal import Role
from holdfast.gateway.openapi import idempotency as documents
from holdfast.gateway.quotas.quotas import NO_QUOTAS
from holdfast.gateway.quotas.record_usage import RecordUsage
from holdfast.gateway.routing import Endpoint
from holdfast.idempotency.interface import record_id
from holdfast.idempotency.record import RECORD_BYTES
from holdfast.idempotency.requests import MAX_KEY
from holdfast.kinds import IDEMPOTENCY_TYPE
from holdfast.names import OWN_TENANT, check_tenant
from holdfast.runtime.serialization import dump, load
from holdfast.wire.errors import raise_for_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.gateway.http_request import HttpRequest
    from holdfast.gateway.quotas.quotas import Quotas
    from holdfast.runtime.contract import HostClient

Answer = dict[str, Any]


class Idempotency:
    """The handlers of the idempotency endpoints."""

    def __init__(self, client: HostClient, quotas: Quotas = NO_QUOTAS, *, alone: bool = False) -> None:
        self._client = client
        self._usage = RecordUsage(client, quotas, alone=alone) if quotas.limit_idempotency else None

    def endpoints(self) -> Sequence[Endpoint]:
        one = "/idempotency/{tenant}/{key}"
        return [
            Endpoint("POST", f"{one}/begin", self.begin, documents.BEGIN, Role.USER),
            Endpoint("POST", f"{one}/commit", self.commit, documents.COMMIT, Role.USER),
            Endpoint("POST", f"{one}/fail", self._sending("Fail"), documents.FAIL, Role.USER),
            Endpoint("POST", f"{one}/renew", self._sending("Renew"), documents.RENEW, Role.USER),
            Endpoint("GET", one, self.get, documents.GET, Role.READER),
        ]

    async def begin(self, call: HttpRequest) -> Answer:
        tenant, key = _names(call)
        _, data = await call.json_object(optional=True)
        for name in ("tenant", "key"):
            if name in data:
                raise InvalidRequest(f"{name}: belongs in the path, not in the body")
        if self._usage is not None:
            await self._usage.check(tenant, partial(self._exists, call))
        answer = await self._ask(call, "Begin", data | {"tenant": tenant, "key": key})
        if self._usage is not None and answer["outcome"] == "run":
            self._usage.note(tenant, RECORD_BYTES + len(key.encode()))
        return answer

    async def commit(self, call: HttpRequest) -> Answer:
        body, data = await call.json_object()
        answer = await self._ask(call, "Commit", data)
        if self._usage is not None:
            self._usage.note(_names(call)[0], len(body))
        return answer

    async def get(self, call: HttpRequest) -> Answer:
        return await self._ask(call, "Get", None)

    def _sending(self, method: str) -> Callable[[HttpRequest], Awaitable[Answer]]:
        """Returns a handler that passes the body on to the actor, which validates it."""

        async def send(call: HttpRequest) -> Answer:
            _, data = await call.json_object()
            return await self._ask(call, method, data)

        return send

    async def _exists(self, call: HttpRequest) -> bool:
        try:
            await self._ask(call, "Get", None)
        except NotFound:
            return False
        return True

    async def _ask(self, call: HttpRequest, method: str, data: Any) -> Answer:
        body = b"" if data is None else dump(data)
        answer = await self._client.invoke_method(IDEMPOTENCY_TYPE, record_id(*_names(call)), method, body)
        return raise_for_refusal(load(answer))


def _names(call: HttpRequest) -> tuple[str, str]:
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
        # Checked before any lookup, so that the answer does not reveal whether the record exists.
        raise Forbidden("This token is bound to another tenant than the one in the path.")
    return check_tenant(tenant), key
