"""The table of what the others pass over: what cannot be read, and what is not Holdfast's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.identity import split_tenant
from holdfast.orchestration.index import INSTANCE_INDEX_TYPE
from holdfast.orchestration.tenants import TENANT_INDEX_TYPE
from holdfast.orchestration.vigil import VIGIL_TYPE
from holdfast.pushpop.doorbell import DOORBELL_TYPE
from holdfast.pushpop.index import INDEX_TYPE
from holdfast.spark.rows import BROKEN, SEPARATOR, Address, Decoder, Problem
from holdfast.spark.tables import TABLES, Instances, Queues, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.orchestration.stored import StoredInstance
    from holdfast.pushpop.stored import StoredQueue
    from holdfast.spark.options import Options
    from holdfast.spark.store import Range, Store
    from holdfast.spark.tables import Task

FOREIGN = "foreign"
#: Types whose values are in no table.
_OTHERS = (INDEX_TYPE, INSTANCE_INDEX_TYPE, TENANT_INDEX_TYPE, DOORBELL_TYPE, VIGIL_TYPE)


class _Referring(Table):
    """Notes what must be there because an actor refers to it."""

    def __init__(self, options: Options, as_of: float) -> None:
        super().__init__(options, as_of)
        self._needed: list[tuple[Address, str]] = []

    def note(self, address: Address, owner: StoredQueue | StoredInstance) -> None:
        self._needed += [(address, key) for key in owner.needed()]

    def missing(self, store: Store) -> list[Problem]:
        """What is not, since it was last asked."""
        needed = {address.beside(key): (address, key) for address, key in self._needed}
        self._needed.clear()
        present = store.present(list(needed))
        return [
            Problem(address, BROKEN, f"{key} is missing from the store.")
            for whole, (address, key) in needed.items()
            if whole not in present
        ]


class _ReferringQueues(_Referring, Queues):
    def tasks(self, address: Address, value: Any, owner: StoredQueue) -> Iterator[Task]:
        self.note(address, owner)
        yield from super().tasks(address, value, owner)


class _ReferringInstances(_Referring, Instances):
    def tasks(self, address: Address, value: Any, owner: StoredInstance | None) -> Iterator[Task]:
        if owner is not None:
            self.note(address, owner)
        yield from super().tasks(address, value, owner)


_TABLES = TABLES | {"queues": _ReferringQueues, "instances": _ReferringInstances}


def problems_of(store: Store, options: Options, within: Range) -> Iterator[list[tuple[Any, ...]]]:
    """Of one range: first whose rows are not Holdfast's, then those that cannot be read or refer to what is missing."""
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
            "It is not Holdfast's, or another app's.",
            count,
        )
        for (app_id, actor_type), count in foreign.items()
    ]
    # What several tables are made of is told by the first.
    told: set[tuple[Address, str]] = set()
    for table in tables:
        problems: list[Problem] = []
        for _ in Decoder(store, table, problems.append).decode(within):
            table.take_block()  # or all that waits would be kept
            if isinstance(table, _Referring):
                problems += table.missing(store)
            yield _rows(problems, told)
            problems.clear()
        yield _rows(problems, told)


def _rows(problems: list[Problem], told: set[tuple[Address, str]]) -> list[tuple[Any, ...]]:
    found = []
    for problem in problems:
        if not problem.is_told and (problem.address, problem.detail) not in told:
            told.add((problem.address, problem.detail))
            found.append(_row(problem))
    return found


def _row(problem: Problem) -> tuple[Any, ...]:
    app_id, actor_type, actor_id, state_key = problem.address
    try:
        tenant, _ = split_tenant(actor_id)
    except HoldfastError:
        tenant = None
    return (app_id, tenant, actor_type, actor_id, state_key, problem.problem, problem.detail, 1)
