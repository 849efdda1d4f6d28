"""The metadata that Dapr SDKs read from their sidecar, where this process replaces it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import __version__
from holdfast.gateway.dapr_api.api_errors import bad_request

if TYPE_CHECKING:
    from holdfast.runtime.in_process.host import InProcessHost

VERSION = f"holdfast-{__version__}"
#: The limits of what callers may add: the number of keys, and the characters of a key and of a value.
MAX_KEYS = 100
MAX_KEY = 256
MAX_VALUE = 4096


class SidecarMetadata:
    """The metadata of this process, and what callers have added to it. It is kept in memory, as by daprd."""

    def __init__(self, host: InProcessHost) -> None:
        self._host = host
        self._extended: dict[str, str] = {}
        #: Where this server listens.
        self.address = ""
        self.port = 0

    def put(self, key: str, value: str) -> None:
        """Adds a value, or replaces it. An empty key is ignored, as by daprd."""
        if not key:
            return
        if len(key) > MAX_KEY or len(value) > MAX_VALUE:
            raise bad_request(f"a key of the metadata has at most {MAX_KEY} characters, and a value {MAX_VALUE}")
        if key not in self._extended and len(self._extended) >= MAX_KEYS:
            raise bad_request(f"the metadata has at most {MAX_KEYS} keys")
        self._extended[key] = value

    async def read(self) -> dict[str, Any]:
        """Returns the metadata in the form of the HTTP answer."""
        active = [{"type": name, "count": count} for name, count in (await self._host.active_counts()).items()]
        ready = (await self._host.readiness()).ready
        return {
            "id": self._host.app_id,
            "runtimeVersion": VERSION,
            "enabledFeatures": ["ActorStateTTL"],
            "actors": active,
            "components": [
                {
                    "name": "statestore",
                    "type": "state.sqlite",
                    "version": "v1",
                    "capabilities": ["TRANSACTIONAL", "TTL", "ACTOR"],
                }
            ],
            "extended": {**self._extended, "daprRuntimeVersion": VERSION, "holdfastHost": self._host.name},
            "appConnectionProperties": {"port": self.port, "protocol": "http", "channelAddress": self.address},
            "actorRuntime": {
                "runtimeStatus": "RUNNING" if ready else "INITIALIZING",
                "activeActors": active,
                "hostReady": ready,
                "placement": "placement: connected" if ready else "",
            },
            # This process fires the reminders itself.
            "scheduler": {"connected_addresses": [f"{self.address}:{self.port}"]},
        }
