"""Which actors have to be woken after their state was moved, as entries of the wake list. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.idempotency.record import Record
from holdfast.kinds import (
    HEAD,
    IDEMPOTENCY_TYPE,
    METADATA,
    ORCHESTRATION_TYPE,
    OWN_TYPES,
    QUEUE_TYPE,
    RECORD,
    RESCUER_TYPE,
    SCHEDULE_TYPE,
    WAKE_LIST_TYPE,
)
from holdfast.orchestration.status import ENDED
from holdfast.orchestration.storage.retention import Retention
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.wake_list import ACTOR_ID, PAGE, PAGES, page_key
from holdfast.state_store.rows import StoredRow
from holdfast.state_store.stored_key import StoredKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Entry = Any

#: The values whose actors are woken at once. They then register their next deadline themselves, if they have one.
_AT_ONCE = {QUEUE_TYPE: METADATA, RESCUER_TYPE: "pages", SCHEDULE_TYPE: "schedule"}


def entries_of(key: StoredKey, value: bytes, retention_seconds: float | None) -> list[Entry]:
    """Returns the entries for one stored value. ``retention_seconds`` is that of the servers."""
    address = [key.actor_type, key.actor_id]
    if _AT_ONCE.get(key.actor_type) == key.state_key:
        return [address]
    if (key.actor_type, key.state_key) == (IDEMPOTENCY_TYPE, RECORD):
        # The only ones with a time. The list is worked off while the server is used, and replaces a reminder that an
        # actor has registered meanwhile; a record that is then deleted too late does no harm.
        return [[*address, Record.from_json(load(value)).swept_at]]
    if (key.actor_type, key.state_key) == (ORCHESTRATION_TYPE, HEAD):
        return _of_instance(address, load(value), retention_seconds)
    if key.actor_type == WAKE_LIST_TYPE and key.state_key != PAGES:
        # A list that was not worked off: its entries for Holdfast's own actors follow from the state again.
        return [entry for entry in load(value) if isinstance(entry, dict)]
    return []


def _of_instance(address: list[str], head: dict[str, Any], retention_seconds: float | None) -> list[Entry]:
    if head["status"] in ENDED:
        has_deadline = retention_seconds is not None or Retention.restore(head).seconds is not None
    else:
        has_deadline = head["next_deadline"] is not None or "blocking" in head
    return [address] if has_deadline or head["deferred_deletes"] else []


def of_reminder(stored: Mapping[str, Any]) -> Entry | None:
    """Returns the entry for a reminder of an app's own actor or of an instance, as the embedded host stores it.

    None for one of Holdfast's other actors, whose reminders follow from their state. That of an instance may be the one
    that recovers it after a crash; if the instance has an entry already, it is woken once more.
    """
    if stored["actor_type"] == ORCHESTRATION_TYPE:
        return [stored["actor_type"], stored["actor_id"]]
    if stored["actor_type"] in OWN_TYPES:
        return None
    constant = {
        "interval": None if stored["retry_interval"] is None else f"{stored['retry_interval']:f}s",
        "maxRetries": stored["max_retries"],
    }
    body = {
        "period": _remaining(stored["period"], stored["repeats_left"]),
        "failurePolicy": {"constant": {name: value for name, value in constant.items() if value is not None}},
    }
    if stored["data"]:
        body["data"] = load(stored["data"])
    if stored["max_retries"] == 0 and stored["retry_interval"] is None:
        body["failurePolicy"] = {"drop": {}}
    return {
        **{name: stored[name] for name in ("actor_type", "actor_id", "name", "due_at")},
        **({} if stored["expires_at"] is None else {"ttl_at": stored["expires_at"]}),
        "body": body,
    }


def _remaining(period: str, repeats_left: int | None) -> str:
    """Returns the period with the firings that are left of a limited number."""
    if repeats_left is None or not period:
        return period
    return f"R{repeats_left}/{period.partition('/')[2] or period}"


class WakeListPages:
    """Puts entries into the rows of the wake list, a page at a time."""

    def __init__(self, app_id: str) -> None:
        self._app_id = app_id
        self._waiting: list[Entry] = []
        self._pages = 0
        #: The number of entries, and of those that are reminders of apps' own actors.
        self.entries = self.of_apps = 0

    def add(self, entry: Entry) -> Iterator[StoredRow]:
        self._waiting.append(entry)
        self.entries += 1
        self.of_apps += isinstance(entry, dict)
        if len(self._waiting) == PAGE:
            yield self._page()

    def finish(self) -> Iterator[StoredRow]:
        if self._waiting:
            yield self._page()
        if self._pages:
            yield self._row(PAGES, [0, self._pages])

    def _page(self) -> StoredRow:
        row = self._row(page_key(self._pages), self._waiting)
        self._waiting = []
        self._pages += 1
        return row

    def _row(self, key: str, value: Any) -> StoredRow:
        return StoredRow(str(StoredKey(self._app_id, WAKE_LIST_TYPE, ACTOR_ID, key)), dump(value))
