"""The configuration of one partition, and in the first partition, the partitions that lack the current version.

The first partition stores the configuration and sends it to the others. A deletion of the queue travels the same way:
it starts a new *generation* of the queue, with the default configuration, and a partition that hears of a new
generation erases what it has of the earlier one. Versions are never reused, so that late messages are recognized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict, InvalidRequest

if TYPE_CHECKING:
    from holdfast.pushpop.api.config import QueueConfig

# After this, a deletion that was begun and neither finished nor given up has failed: partitions take pushes again.
DELETION_SECONDS = 30.0


class ReplicatedConfig:
    def __init__(self, queue: str, partition: int, config: QueueConfig) -> None:
        self._queue = queue
        self._partition = partition
        self.config = config
        #: The number of changes so far, and the partitions that lack the last one.
        self.version = 0
        self.pending_partitions: list[int] = []
        #: How often the queue was deleted.
        self.generation = 0
        #: Whether the queue, or this partition of it, was deleted and not configured since.
        self.deleted = False
        #: In the first partition, the version of a deletion that was begun, and when it is given up.
        self._deletion: tuple[int, float] | None = None
        #: In another partition, whether a deletion was begun, so that it takes no pushes.
        self._closed = False
        self._changed = False

    @property
    def is_member(self) -> bool:
        """Whether this partition is a part of the queue, as far as it knows; others store nothing."""
        return self._partition == 0 or (self._partition < self.config.partitions and not self._closed)

    def change(self, config: QueueConfig, stored: int) -> None:
        """Changes the configuration; the other partitions become pending. ``stored`` is the queue's number of items."""
        self.refuse_in_partition()
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
        grown = range(1, config.partitions)
        if self.config.partitions == 1 and any(number in grown for number in self.pending_partitions):
            # While there is one partition, what the others lack is the deletion. They would take pushes before it.
            raise Conflict("The queue was deleted, and some of its partitions have not heard of it yet: try again.")
        self.deleted = False
        self._advance(config)

    def apply_config(self, config: QueueConfig, version: int, generation: int) -> bool:
        """Takes over the queue's configuration, unless it is older; returns whether the queue was deleted meanwhile."""
        if version <= self.version:
            return False
        new = generation > self.generation
        self._set(config, version)
        self._closed = False
        self.generation = generation
        self.deleted = self._partition >= config.partitions and (new or self.deleted)
        return new

    def refuse_in_partition(self) -> None:
        """Raises InvalidRequest in a partition that has its configuration from the first one."""
        if self._partition:
            raise InvalidRequest(f"A partition cannot be configured: change the configuration of queue {self._queue}.")

    def told(self, partition: int, version: int) -> bool:
        """Records that a partition has this version; returns False if it is not the current one, or was recorded."""
        if version != self.version or partition not in self.pending_partitions:
            return False
        self.pending_partitions.remove(partition)
        return True

    # Deletion

    def begin_deletion(self, now: float) -> int:
        """Announces a deletion; returns its version. The other partitions are closed with it."""
        self.version += 1
        self._deletion = self.version, now + DELETION_SECONDS
        return self.version

    def close(self, version: int) -> None:
        """Stops pushes to this partition, because a deletion with this version was begun."""
        if version < self.version:
            raise Conflict("This deletion was given up.")
        self.version, self._closed = version, True

    def abort_deletion(self) -> bool:
        """Gives up a deletion that was begun; the other partitions are opened again. Returns whether there was one."""
        if self._deletion is None:
            return False
        self._advance(self.config)
        return True

    def delete(self, defaults: QueueConfig, version: int | None) -> None:
        """Starts a new generation. ``version`` is that of the deletion that was begun, if the others were closed."""
        if version is not None and (self._deletion is None or self._deletion[0] != version):
            raise Conflict("The queue was configured while it was being deleted: repeat the deletion.")
        self.generation += 1
        self.deleted = True
        self.pending_partitions = list(range(1, self.config.partitions))
        self._advance(defaults)

    def next_end(self) -> float | None:
        """Returns when a deletion that was begun is given up."""
        return None if self._deletion is None else self._deletion[1]

    # Saved state

    def changed(self) -> tuple[bool, dict[str, Any] | None]:
        """Returns whether the configuration changed since the last call, and what to save of it: None for none."""
        changed, self._changed = self._changed, False
        return changed, self.config.model_dump(exclude_defaults=True) or None

    def to_json(self) -> dict[str, Any]:
        """Returns its part of the metadata."""
        parts = (
            ("_config_version", self.version),
            ("_pending_partitions", self.pending_partitions),
            ("_generation", self.generation),
            ("_deletion", self._deletion),
            ("_closed", self._closed),
        )
        return {key: part for key, part in parts if part}

    def restore(self, metadata: dict[str, Any]) -> None:
        self.version = metadata.get("_config_version", 0)
        self.pending_partitions = metadata.get("_pending_partitions", [])
        self.generation = metadata.get("_generation", 0)
        self.deleted = metadata.get("_deleted", False)
        deletion = metadata.get("_deletion")
        self._deletion = None if deletion is None else (deletion[0], deletion[1])
        self._closed = metadata.get("_closed", False)

    def _advance(self, config: QueueConfig) -> None:
        """Makes this the next version, which all other partitions lack, and gives up a deletion that was begun."""
        self._set(config, self.version + 1)
        # Those that still lack an earlier version may be more: they have to hear of the deletion.
        self.pending_partitions = sorted({*self.pending_partitions, *range(1, config.partitions)})
        self._deletion = None

    def _set(self, config: QueueConfig, version: int) -> None:
        self.config = config
        self.version = version
        self._changed = True
