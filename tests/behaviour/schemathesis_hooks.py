"""Hooks for schemathesis: calls that would hardly meet are led to the same queues and instances; none waits long."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import schemathesis

LONGEST_WAIT = 0.1
#: Queues with something in them; with a lock; with several partitions, locks and dead letters.
FULL, LOCKED, SPREAD = "full", "locked", "spread"
#: Instances, by whether they have ended.
RUNNING, ENDED = "running", "ended"

TENANT = "Holdfast-Tenant"

_LED = {"queue": (FULL, LOCKED, SPREAD), "instance_id": (RUNNING, ENDED), "name": ("waiting", "echo")}
_WAITS = ("wait_seconds", "timeout_seconds")

_NAME = re.compile(r"[A-Za-z0-9\-_:][A-Za-z0-9\-_.:]{0,254}")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    query = case.query = case.query or {}
    if case.operation.path.endswith(("/wait", "/requests/{request}")):
        query.setdefault("timeout_seconds", str(LONGEST_WAIT))
    for wait in _WAITS:
        with contextlib.suppress(TypeError, ValueError):
            if float(query.get(wait, 0)) > LONGEST_WAIT:
                query[wait] = str(LONGEST_WAIT)
    path = case.path_parameters or {}
    for parameter, known in _LED.items():
        name = path.get(parameter)
        # Only names that are valid: the others are there to be refused.
        if isinstance(name, str) and _NAME.fullmatch(name):
            path[parameter] = (name, *known)[sum(name.encode()) % (1 + len(known))]
    # Few tenants, each of which a server's worker waits for; and most of the time the one that has something.
    tenant = (case.headers or {}).get(TENANT)
    if isinstance(tenant, str) and _NAME.fullmatch(tenant):
        case.headers[TENANT] = ("default", "default", "acme")[sum(tenant.encode()) % 3]
    # An id that could be one, now and then: what is made up hardly ever is.
    item = path.get("id")
    if isinstance(item, str) and item and len(item) % 2:
        path["id"] = f"{len(item) % 3}-0-0-{sum(item.encode()) % 300}"
