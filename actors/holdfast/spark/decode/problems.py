"""The table of rows that the others skip: unreadable ones, and those that do not belong to Holdfast."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.kinds import CLIENT_TYPES, OWN_TYPES
from holdfast.names import split_tenant
from holdfast.spark.decode.decoder import BROKEN, SEPARATOR, Address, Decoder, Problem
from holdfast.spark.decode.tables import TABLES, Instances, Queues, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.orchestration.reader import InstanceReader
    from holdfast.pushpop.reader import QueueReader
    from holdfast.spark.decode.tables import Task
    from holdfast.spark.source.options import Options
    from holdfast.spark.stores.base import Range, Store

FOREIGN = "foreign"
#: Holdfast's actor types whose values are in no table.
_OTHERS = tuple(sorted(OWN_TYPES - CLIENT_TYPES))


class _Referring(Table):
    """Collects the keys that actors refer to, which must exist."""

    def __init__(self, options: Options, as_of: float) -> None:
        super().__init__(options, as_of)
        self._needed: list[tuple[Address, str]] = []

    def note(self, address: Address, owner: QueueReader | InstanceReader) -> None:
        self._needed += [(address, key) for key in owner.needed()]

    def missing(self, store: Store) -> list[Problem]:
        """Returns the missing keys among those collected since the last call."""
        needed = {address.beside(key): (address, key) for address, key in self._needed}
        self._needed.clear()
        present = store.present(list(needed))
        return [
            Problem(address, BROKEN, f"{key} is missing from the store.")
            for whole, (address, key) in needed.items()
            if whole not in present
        ]


class _ReferringQueues(_Referring, Queues):
    def tasks(self, address: Address, value: Any, owner: QueueReader) -> Iterator[Task]:
        self.note(address, owner)
        yield from super().tasks(address, value, owner)


class _ReferringInstances(_Referring, Instances):
    def tasks(self, address: Address, value: Any, owner: InstanceReader | None) -> Iterator[Task]:
        if owner is not None:
            self.note(address, owner)
        yield from super().tasks(address, value, owner)


_TABLES = TABLES | {"queues": _ReferringQueues, "instances": _ReferringInstances}


def problems_of(store: Store, options: Options, within: Range) -> Iterator[list[tuple[Any, ...]]]:
    """Yields the problems of one range: foreign rows first, then unreadable rows and missing values."""
    tables = [table(options, store.as_of) for table in _TABLES.values()]
    types = {*_OTHERS, *(table.actor_type for table in tables), options.actor_type}
    foreign: Counter[tuple[str, str]] = Counter()
    for key in store.keys(within):
        address = Address.parse(key)
        if address is None:
            foreign[key.partition(SEPARATOR)[0] if SEPARATOR in key else "", ""] += 1
        elif address.actor_type not in types or options.app_id not in (None, address.app_id):
            foreign[address.app_id, address.actor_type] += 1
    yield [
        (
            app_id or None,
            None,
            actor_type or None,
            None,
            None,
            FOREIGN,
            "It does not belong to Holdfast, or belongs to another app.",
            count,
        )
        for (app_id, actor_type), count in foreign.items()
    ]
    # A value that several tables read is reported once.
    reported: set[tuple[Address, str]] = set()
    for table in tables:
        problems: list[Problem] = []
        for _ in Decoder(store, table, problems.append).decode(within):
            table.take_block()  # dropped, or all waiting items would stay in memory
            if isinstance(table, _Referring):
                problems += table.missing(store)
            yield _rows(problems, reported)
            problems.clear()
        yield _rows(problems, reported)


def _rows(problems: list[Problem], reported: set[tuple[Address, str]]) -> list[tuple[Any, ...]]:
    found = []
    for problem in problems:
        if not problem.reported_elsewhere and (problem.address, problem.detail) not in reported:
            reported.add((problem.address, problem.detail))
            found.append(_row(problem))
    return found


def _row(problem: Problem) -> tuple[Any, ...]:
    app_id, actor_type, actor_id, state_key = problem.address
    try:
        tenant, _ = split_tenant(actor_id)
    except HoldfastError:
        tenant = None
    return (app_id, tenant, actor_type, actor_id, state_key, problem.problem, problem.detail, 1)
