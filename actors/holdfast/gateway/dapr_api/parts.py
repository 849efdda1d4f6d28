"""The parts of the gateway that the servers of Dapr's API use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Scope

    from holdfast.gateway.auth.audit_log import AuditLog
    from holdfast.gateway.dapr_api.metadata import SidecarMetadata
    from holdfast.runtime.in_process.host import InProcessHost


@dataclass(frozen=True)
class SidecarParts:
    """The parts of a gateway that takes the place of a sidecar."""

    #: The whole gateway, with all of its checks.
    app: ASGIApp
    host: InProcessHost
    audit: AuditLog
    metadata: SidecarMetadata
    #: Stores the caller of a request in its scope. Raises HoldfastError for a caller that may not make it.
    identify: Callable[[Scope], None]
