"""What schemathesis is given to know of this server: it would wait for as long as a query can ask for."""

from __future__ import annotations

import contextlib
from typing import Any

import schemathesis

LONGEST = 0.1


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    query = case.query or {}
    with contextlib.suppress(TypeError, ValueError):
        if float(query.get("wait_seconds", 0)) > LONGEST:
            query["wait_seconds"] = str(LONGEST)
