"""The stored form of mail that executions left unread: each mail is stored once, however long it stays unread.

Each mailbox is stored in chunks, bounded in bytes. The last chunk is rewritten while it has room. Mail is no longer
needed when it was received before the oldest execution whose history is kept; a chunk is deleted when that applies to
all its mail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import StorageBroken, TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.orchestration.core.mailboxes import Mail
    from holdfast.runtime.reads import Reads

CHUNK_BYTES = 16 * 1024


@dataclass(slots=True)
class _Box:
    """The chunks of one mailbox: the number of the first chunk, and the number of the last mail in each chunk."""

    index: int
    first: int = 0
    ends: list[int] = field(default_factory=list)
    #: The last chunk, while it has room; None until it is read after a restore.
    open: list[list[Any]] | None = None
    size: int = 0


class StoredMail:
    """The chunks of one instance."""

    def __init__(self, generation: int = 0) -> None:
        self._generation = generation
        self._boxes: dict[str, _Box] = {}
        #: For each execution whose history is kept, the received numbers at its start.
        self._received: dict[int, Mapping[str, int]] = {}
        #: Chunks that are no longer needed. They are deleted after the turn that dropped them is saved.
        self.dropped: list[str] = []
        #: The dropped chunks that the saved head no longer refers to.
        self._deletable: list[str] = []
        self._changed: dict[str, Any] = {}

    # Changes

    def begin(self, execution_id: int, mark: Mapping[str, Any] | None) -> None:
        """Notes that an execution begins, whose history refers to the mail that is unread now."""
        self._received[execution_id] = {} if mark is None else mark["received"]

    def keep(self, mail: Iterable[Mail], executions: Iterable[int]) -> None:
        """Stores the mail that executions with kept histories refer to, and drops the chunks they do not."""
        kept = set(executions)
        self._received = {number: received for number, received in self._received.items() if number in kept}
        oldest: Mapping[str, int] = self._received[min(self._received)] if self._received else {}
        for one in mail:
            if one.number > oldest.get(one.mailbox, 0):
                self._add(one)
        for name, box in list(self._boxes.items()):
            while box.ends and box.ends[0] <= oldest.get(name, 0):
                self.dropped.append(self._key(box, box.first))
                box.first += 1
                del box.ends[0]
            if not box.ends:
                box.open = None

    def delete_dropped(self) -> bool:
        """Deletes the chunks that earlier turns dropped. Returns whether there were any."""
        deleted, self._deletable = self._deletable, []
        self._changed |= dict.fromkeys(deleted)
        self.dropped = [key for key in self.dropped if key not in deleted]
        return bool(deleted)

    def changes(self) -> dict[str, Any]:
        changed, self._changed = self._changed, {}
        self._deletable = list(self.dropped)
        return changed

    def garbage(self) -> list[tuple[str, int, int]]:
        """Returns all chunks, for deletion: the prefix of their keys, the first number and the one after the last."""
        return [(self._prefix(box), box.first, box.first + len(box.ends)) for box in self._boxes.values() if box.ends]

    # Reading

    def read(self, mark: Mapping[str, Any] | None, most: int | None = None) -> Reads[list[dict[str, Any]]]:
        """Reads the mail that was unread at the start of an execution with this mark, in the order it was raised.

        Raises TooLarge when that is more than ``most`` bytes.
        """
        if mark is None:
            return []
        # Chunks whose mail was all received are skipped.
        wanted = [
            (name, box, box.first + place)
            for name, box in self._boxes.items()
            for place, end in enumerate(box.ends)
            if end > mark["received"].get(name, 0)
        ]
        keys = [self._key(box, number) for _, box, number in wanted]
        if most is not None:
            yield from self._weigh(keys, most)
        unchanged = tuple(key for key in keys if key not in self._changed)
        known = self._changed | dict(zip(unchanged, (yield unchanged), strict=True))
        found: list[dict[str, Any]] = []
        for key, (name, box, number) in zip(keys, wanted, strict=True):
            chunk = known[key]
            if chunk is None:
                raise StorageBroken(f"Mail is missing from the store: {key}. Restore it from a backup.")
            if box.open is None and number == box.first + len(box.ends) - 1:
                box.open, box.size = list(chunk), len(orjson.dumps(chunk))
            received = mark["received"].get(name, 0)
            found += [
                {"number": number, "mailbox": name, "data": data, **({"request_id": more[0]} if more else {})}
                for number, data, *more in chunk
                if received < number <= mark["last"]
            ]
        return sorted(found, key=itemgetter("number"))

    def _weigh(self, keys: Iterable[str], most: int) -> Reads[None]:
        for key in keys:
            # One by one: all chunks together may not fit into memory.
            chunk = self._changed[key] if key in self._changed else (yield (key,))[0]
            most -= len(orjson.dumps(chunk))
            if most < 0:
                raise TooLarge("The unread mail at the start of this execution is too large for one reply.")

    # Stored form

    def head(self) -> dict[str, Any] | None:
        boxes = {name: [box.index, box.first, box.ends] for name, box in self._boxes.items() if box.ends or box.first}
        if not (boxes or self.dropped):
            return None
        received = [[number, received] for number, received in self._received.items()]
        return {"mailboxes": boxes, "received": received, "dropped": self.dropped}

    @classmethod
    def restore(cls, generation: int, head: dict[str, Any] | None) -> StoredMail:
        stored = cls(generation)
        if head is not None:
            stored._boxes = {name: _Box(*box) for name, box in head["mailboxes"].items()}
            stored._received = dict(head["received"])
            stored.dropped, stored._deletable = head["dropped"], list(head["dropped"])
        return stored

    # Internals

    def _add(self, mail: Mail) -> None:
        box = self._boxes.get(mail.mailbox)
        if box is None:
            box = self._boxes[mail.mailbox] = _Box(len(self._boxes))
        if box.ends and mail.number <= box.ends[-1]:
            return  # stored before, because it was too large for the history
        entry = [mail.number, mail.data, *([] if mail.request_id is None else [mail.request_id])]
        size = len(orjson.dumps(entry)) + 1
        if box.open is None or box.size + size > CHUNK_BYTES:
            box.open, box.size = [], 0
            box.ends.append(mail.number)
        box.open.append(entry)
        box.size += size
        box.ends[-1] = mail.number
        self._changed[self._key(box, box.first + len(box.ends) - 1)] = box.open

    def _prefix(self, box: _Box) -> str:
        return f"mail-{self._generation}-{box.index}-"

    def _key(self, box: _Box, number: int) -> str:
        return f"{self._prefix(box)}{number}"


def stored_keys(generation: int, head: dict[str, Any] | None) -> list[str]:
    """Returns the keys of the state values that contain mail, given the head of an instance."""
    boxes = [] if head is None else head["mailboxes"].values()
    return [f"mail-{generation}-{index}-{first + place}" for index, first, ends in boxes for place in range(len(ends))]
