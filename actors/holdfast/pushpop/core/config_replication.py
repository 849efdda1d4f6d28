"""The configuration of one partition, and in the first partition, the partitions that lack the current version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidRequest

if TYPE_CHECKING:
    from holdfast.pushpop.api.config import QueueConfig


class ReplicatedConfig:
    def __init__(self, queue: str, partition: int, config: QueueConfig) -> None:
        self._queue = queue
        self._partition = partition
        self.config = config
        #: The number of changes so far, and the partitions that lack the last one.
        self.version = 0
        self.pending_partitions: list[int] = []
        self._changed = False

    def change(self, config: QueueConfig, stored: int) -> None:
        """Changes the configuration; the other partitions become pending. ``stored`` is the queue's number of items."""
        if self._partition:
            raise InvalidRequest(f"A partition cannot be configured: change the configuration of queue {self._queue}.")
        if config.dead_letter_queue == self._queue:
            raise InvalidRequest("dead_letter_queue: a queue cannot be its own dead-letter queue.")
        if config.partitions < self.config.partitions:
            raise InvalidRequest(
                f"partitions: cannot be reduced from {self.config.partitions}, because items would be lost."
            )
        # Redriven dead letters may have filled the queue beyond its capacity, which must not fail other changes.
        changed = config.capacity != self.config.capacity
        if changed and config.capacity is not None and config.capacity < stored:
            raise InvalidRequest(f"capacity: cannot be less than the {stored} items in the queue.")
        self._set(config, self.version + 1)
        self.pending_partitions = list(range(1, config.partitions))

    def apply_config(self, config: QueueConfig, version: int) -> None:
        """Takes over the queue's configuration, unless it is older than the present one."""
        if version > self.version:
            self._set(config, version)

    def told(self, partition: int, version: int) -> bool:
        """Records that a partition has this version; returns False if it is not the current one, or was recorded."""
        if version != self.version or partition not in self.pending_partitions:
            return False
        self.pending_partitions.remove(partition)
        return True

    def changed(self) -> dict[str, Any] | None:
        """Returns the configuration to save, or None if it has not changed since the last call."""
        changed, self._changed = self._changed, False
        return self.config.model_dump(exclude_defaults=True) if changed else None

    def to_json(self) -> dict[str, Any]:
        """Returns its part of the metadata."""
        parts = (("_config_version", self.version), ("_pending_partitions", self.pending_partitions))
        return {key: part for key, part in parts if part}

    def restore(self, metadata: dict[str, Any]) -> None:
        self.version = metadata.get("_config_version", 0)
        self.pending_partitions = metadata.get("_pending_partitions", [])

    def _set(self, config: QueueConfig, version: int) -> None:
        self.config = config
        self.version = version
        self._changed = True
