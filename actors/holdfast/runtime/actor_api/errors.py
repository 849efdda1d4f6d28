"""The error body of an actor call."""

from __future__ import annotations

import logging
from typing import Any

from dapr.actor.error import ActorMethodNotFoundError
from dapr.clients.exceptions import DaprInternalError

from holdfast.errors import HoldfastError

log = logging.getLogger(__name__)


def error_body(error: Exception, where: str) -> dict[str, Any]:
    """Returns the body: a HoldfastError in full, a missing method by name, and no details of an internal error."""
    if isinstance(error, HoldfastError):
        return error.as_dict()
    if isinstance(error, DaprInternalError):
        return dict(error.as_json_safe_dict())  # type: ignore[no-untyped-call]
    if isinstance(error, ActorMethodNotFoundError):
        return {"message": f"there is no method {where.rpartition('.')[2]}", "errorCode": "NOT_FOUND"}
    log.error("%s failed", where, exc_info=error)
    return {"message": "the actor failed; its log has the reason", "errorCode": "INTERNAL"}
