"""From rows of the store to rows of a table: which rows are wanted, and what each is, some of them at a time."""

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
from holdfast.pushpop.stored import UNREADABLE
from holdfast.runtime.serialization import load
from holdfast.spark.fitting import fitting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.spark.store import Range, Row, Store
    from holdfast.spark.tables import Table

log = logging.getLogger(__name__)

#: A row that is wanted, with what names its actor.
Wanted: TypeAlias = "tuple[str, Address, bytes]"
#: Asks for whole keys, is sent their values, returns rows.
Steps: TypeAlias = Generator[tuple[str, ...], Any, list[tuple[Any, ...]]]

# What is looked at side by side, so that what it takes to read them is fetched together.
_PAGE_ROWS = 256
_PAGE_BYTES = 2 * 1024 * 1024
_TASKS_AT_ONCE = 16
# What tasks ask for is fetched some keys at a time: fewer where values turn out to be large, more where they are small.
_FEWEST_KEYS, _MOST_KEYS = 4, 256
_LOOKUP_BYTES = 8 * 1024 * 1024
# Actors of which is remembered what their own values say.
_OWNERS = 256

SEPARATOR = "||"
BROKEN, LATER = "broken", "later version"


class Address(NamedTuple):
    """What the key of a state value says."""

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
        """What names the actor."""
        return f"{self.app_id}{SEPARATOR}{self.actor_type}{SEPARATOR}{self.actor_id}"

    def at(self, state_key: str) -> Address:
        """Another value of the same actor."""
        return self._replace(state_key=state_key)

    def beside(self, state_key: str, actor_id: str | None = None) -> str:
        """The key of another value, of the same actor unless told otherwise."""
        return SEPARATOR.join((self.app_id, self.actor_type, actor_id or self.actor_id, state_key))


class Problem(NamedTuple):
    """A row that was passed over."""

    address: Address
    problem: str
    detail: str
    #: What was passed over is another value: this one, which it belongs to, is at fault, and is told of by itself.
    is_told: bool = False


class Decoder:
    """Turns the rows of one range into rows of a table."""

    def __init__(self, store: Store, table: Table, on_problem: Callable[[Problem], None]) -> None:
        self._store = store
        self._table = table
        self._on_problem = on_problem
        #: What is said of an actor by its own values, or why that cannot be told.
        self._owners: OrderedDict[str, Any] = OrderedDict()
        #: Whether an actor is wanted, by the parts of what names it: rows of one follow each other.
        self._is_about = lru_cache(maxsize=_OWNERS)(self._ask_about)
        #: Of what was read since somebody set it to nothing.
        self.bytes_read = 0
        self._keys_at_once = 4 * _FEWEST_KEYS

    def decode(self, within: Range) -> Iterator[list[tuple[Any, ...]]]:
        """A list for what little was read at once."""
        rows = self._store.scan(within, self._table.patterns())
        for page in self._pages(rows):
            tasks = self._tasks(page)
            while some := list(islice(tasks, _TASKS_AT_ONCE)):
                for address, found in self._drive(some):
                    if found:
                        yield fitting(found, self._table.schema, partial(self._report, address))
                for address, error in self._table.take_left_out():
                    self._report(address, error)
            yield []  # what the table found without a task

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
        return self._table.is_about(Address(app_id, actor_type, actor_id, ""))

    def _tasks(self, page: list[Wanted]) -> Iterator[tuple[Address, Steps]]:
        owners = self._owners_of(page)
        for name, address, value in page:
            owner = owners.get(name)
            if isinstance(owner, Exception):
                # Where what a value belongs to is missing, there is nothing else to tell of.
                missing = isinstance(owner, HoldfastError) and owner.details.get("missing")
                at_fault = address if missing else address.at(self._table.owner_keys[0])
                self._report(at_fault, owner, is_told=at_fault != address)
                continue
            try:
                parsed = _parsed(value)
                if not self._table.gather(address, parsed, owner):
                    yield from self._table.tasks(address, parsed, owner)
            except UNREADABLE as error:
                self._report(address, error)
        yield from self._table.gathered()

    def _owners_of(self, page: list[Wanted]) -> dict[str, Any]:
        """What the table has to know of the actors of these rows, fetched together where it is not known yet."""
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

    def _drive(self, tasks: list[tuple[Address, Steps]]) -> Iterator[tuple[Address, list[tuple[Any, ...]]]]:
        """Runs them side by side, and looks up together what some of them ask for."""
        asking: deque[_Asking] = deque()
        for one in (_Asking(address, task) for address, task in tasks):
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
        self, asking: _Asking, step: Callable[[], tuple[str, ...]]
    ) -> Generator[tuple[Address, list[tuple[Any, ...]]], None, bool]:
        """Whether it asks for more."""
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

    def _report(self, address: Address, error: Exception, *, is_told: bool = False) -> None:
        told = isinstance(error, HoldfastError)
        detail = str(error) if told else f"{address.state_key} cannot be read: {type(error).__name__}."
        self._on_problem(Problem(address, LATER if "later version" in detail else BROKEN, detail, is_told))


@dataclass(slots=True)
class _Asking:
    """A task, and what it waits for."""

    address: Address
    task: Steps
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


class Tally:
    """Counts what was passed over, and says so once."""

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
                "%s: %d rows were passed over (%s), such as %s of %s: %s The table 'problems' has them all.",
                *(self._table, count, problem, example.address.state_key, example.address.actor_id, example.detail),
            )


def _parsed(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except ValueError:
        return load(value)  # orjson stops at 64 bits


def _parsed_if_any(value: bytes | None) -> Any:
    return None if value is None else _parsed(value)
