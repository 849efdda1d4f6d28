"""Turns rows of the store into rows of a table, a page at a time."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from holdfast.errors import HoldfastError, StorageBroken
from holdfast.pushpop.reader import UNREADABLE
from holdfast.runtime.serialization import load
from holdfast.spark.decode.column_types import valid_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.spark.decode.tables import Table
    from holdfast.spark.stores.base import Range, Row, Store

log = logging.getLogger(__name__)

#: The owner, address and value of a row to decode.
Wanted: TypeAlias = "tuple[str, Address, bytes]"
#: A generator that yields the keys it needs, is sent their values, and returns rows.
KeyReads: TypeAlias = Generator[tuple[str, ...], Any, list[tuple[Any, ...]]]

# Rows of a page are decoded together, so that the values they need are fetched together.
_PAGE_ROWS = 256
_PAGE_BYTES = 2 * 1024 * 1024
_TASKS_AT_ONCE = 16
# Keys fetched at once: fewer if the values turn out to be large, more if they are small.
_FEWEST_KEYS, _MOST_KEYS = 4, 256
_LOOKUP_BYTES = 8 * 1024 * 1024
# Actors whose owner values are cached.
_OWNERS = 256

SEPARATOR = "||"
BROKEN, LATER = "broken", "later version"


class Address(NamedTuple):
    """The parts of a state value's key."""

    app_id: str
    actor_type: str
    actor_id: str
    state_key: str

    @classmethod
    def parse(cls, key: str) -> Address | None:
        parts = key.split(SEPARATOR)
        return cls(*parts) if len(parts) == 4 else None

    @property
    def owner(self) -> str:
        """The part of the key that names the actor."""
        return f"{self.app_id}{SEPARATOR}{self.actor_type}{SEPARATOR}{self.actor_id}"

    def at(self, state_key: str) -> Address:
        """Returns the address of another value of the same actor."""
        return self._replace(state_key=state_key)

    def beside(self, state_key: str, actor_id: str | None = None) -> str:
        """Returns the key of another value, of the same actor unless ``actor_id`` is given."""
        return SEPARATOR.join((self.app_id, self.actor_type, actor_id or self.actor_id, state_key))


class Problem(NamedTuple):
    """A row that was skipped."""

    address: Address
    problem: str
    detail: str
    #: Another value was skipped because this one, which it depends on, is broken; that is reported separately.
    reported_elsewhere: bool = False


class Decoder:
    """Turns the rows of one range into rows of a table."""

    def __init__(self, store: Store, table: Table, on_problem: Callable[[Problem], None]) -> None:
        self._store = store
        self._table = table
        self._on_problem = on_problem
        #: The decoded owner values of an actor, or the error that decoding them raised.
        self._owners: OrderedDict[str, Any] = OrderedDict()
        #: Whether the table reads an actor. Cached, since the rows of one actor follow each other.
        self._is_about = lru_cache(maxsize=_OWNERS)(self._ask_about)
        #: Bytes read since the caller reset it.
        self.bytes_read = 0
        self._keys_at_once = 4 * _FEWEST_KEYS

    def decode(self, within: Range) -> Iterator[list[tuple[Any, ...]]]:
        """Yields the decoded rows in lists of limited size."""
        rows = self._store.scan(within, self._table.patterns())
        for page in self._pages(rows):
            tasks = self._tasks(page)
            while some := list(islice(tasks, _TASKS_AT_ONCE)):
                for address, found in self._drive(some):
                    if found:
                        yield valid_rows(found, self._table.schema, partial(self._report, address))
                for address, error in self._table.take_left_out():
                    self._report(address, error)
            yield []  # lets the caller take rows the table found without a task

    def _pages(self, rows: Iterable[Row]) -> Iterator[list[Wanted]]:
        page: list[Wanted] = []
        size = 0
        for key, value in rows:
            address = Address.parse(key)
            if address is None or not self._table.is_made_of(address.state_key) or not self._is_about(*address[:3]):
                continue
            page.append((address.owner, address, value))
            size += len(value)
            if len(page) >= _PAGE_ROWS or size >= _PAGE_BYTES:
                self.bytes_read += size
                yield page
                page, size = [], 0
        self.bytes_read += size
        if page:
            yield page

    def _ask_about(self, app_id: str, actor_type: str, actor_id: str) -> bool:
        return self._table.matches_actor(Address(app_id, actor_type, actor_id, ""))

    def _tasks(self, page: list[Wanted]) -> Iterator[tuple[Address, KeyReads]]:
        owners = self._owners_of(page)
        for name, address, value in page:
            owner = owners.get(name)
            if isinstance(owner, Exception):
                # If the owner's value is missing, only this row can be reported.
                missing = isinstance(owner, HoldfastError) and owner.details.get("missing")
                at_fault = address if missing else address.at(self._table.owner_keys[0])
                self._report(at_fault, owner, reported_elsewhere=at_fault != address)
                continue
            try:
                parsed = _parsed(value)
                if not self._table.gather(address, parsed, owner):
                    yield from self._table.tasks(address, parsed, owner)
            except UNREADABLE as error:
                self._report(address, error)
        yield from self._table.gathered()

    def _owners_of(self, page: list[Wanted]) -> dict[str, Any]:
        """Returns the owner values of these rows' actors; those not cached are fetched together."""
        if not self._table.owner_keys:
            return {}
        addresses = {owner: address for owner, address, _ in page}
        unknown = [address for owner, address in addresses.items() if owner not in self._owners]
        keys = [address.beside(key) for address in unknown for key in self._table.owner_keys]
        values = self._lookup(keys)
        for address in unknown:
            try:
                own = [_parsed_if_any(values.get(address.beside(key))) for key in self._table.owner_keys]
                if own[0] is None:
                    missing = self._table.owner_keys[0]
                    raise StorageBroken(f"The value {missing!r} is missing from the store.", missing=missing)
                self._owners[address.owner] = self._table.owner(address, own)
            except UNREADABLE as error:
                self._owners[address.owner] = error
        found = {owner: self._owners[owner] for owner in addresses}
        while len(self._owners) > _OWNERS:
            self._owners.popitem(last=False)
        return found

    def _lookup(self, keys: list[str]) -> dict[str, bytes]:
        values = self._store.lookup(keys) if keys else {}
        self.bytes_read += sum(map(len, values.values()))
        return values

    def _drive(self, tasks: list[tuple[Address, KeyReads]]) -> Iterator[tuple[Address, list[tuple[Any, ...]]]]:
        """Runs the tasks concurrently, and looks up the keys of several of them together."""
        asking: deque[_Pending] = deque()
        for one in (_Pending(address, task) for address, task in tasks):
            if (yield from self._go_on(one, partial(next, one.task))):
                asking.append(one)
        while asking:
            some = [asking.popleft()]
            while asking and sum(len(one.keys) for one in some) + len(asking[0].keys) <= self._keys_at_once:
                some.append(asking.popleft())
            values = self._lookup(list({key for one in some for key in one.keys}))
            self._adapt(values)
            for one in some:
                if (yield from self._go_on(one, partial(one.answer, values))):
                    asking.append(one)

    def _go_on(
        self, asking: _Pending, step: Callable[[], tuple[str, ...]]
    ) -> Generator[tuple[Address, list[tuple[Any, ...]]], None, bool]:
        """Advances a task; returns whether it needs more keys."""
        try:
            asking.keys = step()
        except StopIteration as done:
            yield asking.address, done.value
        except UNREADABLE as error:
            self._report(asking.address, error)
        else:
            return True
        return False

    def _adapt(self, values: dict[str, bytes]) -> None:
        size = sum(map(len, values.values()))
        if size > _LOOKUP_BYTES:
            self._keys_at_once = max(_FEWEST_KEYS, self._keys_at_once // 4)
        elif size < _LOOKUP_BYTES // 8:
            self._keys_at_once = min(_MOST_KEYS, self._keys_at_once * 2)

    def _report(self, address: Address, error: Exception, *, reported_elsewhere: bool = False) -> None:
        has_message = isinstance(error, HoldfastError)
        detail = str(error) if has_message else f"{address.state_key} cannot be read: {type(error).__name__}."
        self._on_problem(Problem(address, LATER if "later version" in detail else BROKEN, detail, reported_elsewhere))


@dataclass(slots=True)
class _Pending:
    """A task and the keys it waits for."""

    address: Address
    task: KeyReads
    keys: tuple[str, ...] = ()

    def answer(self, values: dict[str, bytes]) -> tuple[str, ...]:
        try:
            answer = [self._parsed(key, values.get(key)) for key in self.keys]
        except StorageBroken as error:
            return self.task.throw(error)
        return self.task.send(answer)

    def _parsed(self, key: str, value: bytes | None) -> Any:
        try:
            return _parsed_if_any(value)
        except ValueError as error:
            raise StorageBroken(f"{key.rpartition(SEPARATOR)[2]} cannot be read: {type(error).__name__}.") from error


class ProblemCounter:
    """Counts skipped rows, and logs the counts once."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._counts: Counter[str] = Counter()
        self._example: dict[str, Problem] = {}

    def add(self, problem: Problem) -> None:
        self._counts[problem.problem] += 1
        self._example.setdefault(problem.problem, problem)

    def tell(self) -> None:
        for problem, count in self._counts.items():
            example = self._example[problem]
            log.warning(
                "%s: skipped %d rows (%s), for example %s of %s: %s The table 'problems' lists all of them.",
                *(self._table, count, problem, example.address.state_key, example.address.actor_id, example.detail),
            )


def _parsed(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except ValueError:
        return load(value)  # orjson rejects integers over 64 bits


def _parsed_if_any(value: bytes | None) -> Any:
    return None if value is None else _parsed(value)
