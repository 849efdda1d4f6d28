"""The fields of log lines about an instance."""

from __future__ import annotations

from typing import Any

from holdfast.logs import about
from holdfast.names import split_instance_actor


def about_instance(address: str) -> dict[str, Any]:
    """Returns the ``extra`` of a log call about the instance with this actor id."""
    tenant, instance_id = split_instance_actor(address)
    return about(instance_id=instance_id, tenant=tenant)
