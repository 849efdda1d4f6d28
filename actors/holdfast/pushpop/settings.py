"""The configuration one partition of a queue goes by, and in the first, which of the others do not know it yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidRequest

if TYPE_CHECKING:
    from holdfast.pushpop.config import QueueConfig


class Settings:
    def __init__(self, queue: str, partition: int, config: QueueConfig) -> None:
        self._queue = queue
        self._partition = partition
        self.config = config
        #: How often it was changed, and which partitions do not know of the last time.
        self.version = 0
        self.untold: list[int] = []
        self._changed = False

    def change(self, config: QueueConfig, stored: int) -> None:
        """Which the other partitions have to be told. ``stored`` is how many items the queue has."""
        if self._partition:
            raise InvalidRequest(f"The configuration is that of the queue {self._queue}, and is changed there.")
        if config.dead_letter_queue == self._queue:
            raise InvalidRequest("dead_letter_queue: a queue cannot be its own.")
        if config.partitions < self.config.partitions:
            raise InvalidRequest(
                f"partitions: there are {self.config.partitions}, and fewer would lose what lies in the others."
            )
        # Dead letters that came back may have made it fuller than it was meant to be, which is no mistake of today's.
        changed = config.capacity != self.config.capacity
        if changed and config.capacity is not None and config.capacity < stored:
            raise InvalidRequest(f"capacity: there are {stored} items in the queue already.")
        self._set(config, self.version + 1)
        self.untold = list(range(1, config.partitions))

    def be_told(self, config: QueueConfig, version: int) -> None:
        """The configuration of the queue this is a partition of."""
        if version > self.version:
            self._set(config, version)

    def told(self, partition: int, version: int) -> bool:
        """This partition knows the configuration; False when that is not the last one, or was known."""
        if version != self.version or partition not in self.untold:
            return False
        self.untold.remove(partition)
        return True

    def changed(self) -> dict[str, Any] | None:
        """The configuration as it is saved; None when it is the same as at the last call."""
        changed, self._changed = self._changed, False
        return self.config.model_dump(exclude_defaults=True) if changed else None

    def to_json(self) -> dict[str, Any]:
        """Its part of the metadata."""
        parts = (("_config_version", self.version), ("_untold", self.untold))
        return {key: part for key, part in parts if part}

    def restore(self, metadata: dict[str, Any]) -> None:
        self.version = metadata.get("_config_version", 0)
        self.untold = metadata.get("_untold", [])

    def _set(self, config: QueueConfig, version: int) -> None:
        self.config = config
        self.version = version
        self._changed = True
