"""What a caller is told of an error that an actor raised."""

from __future__ import annotations

import logging
from typing import Any

from dapr.actor.error import ActorMethodNotFoundError
from dapr.clients.exceptions import DaprInternalError

log = logging.getLogger(__name__)


def describe(error: Exception, where: str) -> dict[str, Any]:
    """The body of the answer: a designed error in full, a missing method by name, of a fault only that it is one."""
    if isinstance(error, DaprInternalError):
        return dict(error.as_json_safe_dict())  # type: ignore[no-untyped-call]
    if isinstance(error, ActorMethodNotFoundError):
        return {"message": f"there is no method {where.rpartition('.')[2]}", "errorCode": "NOT_FOUND"}
    log.error("%s failed", where, exc_info=error)
    return {"message": "the actor failed; its log has the reason", "errorCode": "INTERNAL"}
