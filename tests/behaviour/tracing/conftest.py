"""The stacks of these tests: they export their spans to a collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.stacks import OnEmbedded, OnPostgresql, OnSqlite, Unhurried
from tests.support.collector import Collector
from tests.support.stacks.started import started_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from holdfast.local import ChildProcess
    from tests.support.stacks.served import ServedStack


class Traced(Unhurried):
    apps = (*Unhurried.apps[:1], "tests.behaviour.tracing.definitions:app")

    def __init__(self, folder: Path) -> None:
        self.collector = Collector()
        super().__init__(folder)

    def _serve(
        self, *options: str, environment: Mapping[str, str] | None = None, name: str = "app", port: int | None = None
    ) -> ChildProcess:
        traced = {**(environment or {}), **self.collector.environment}
        return super()._serve(*options, environment=traced, name=name, port=port)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.collector.close()


class TracedEmbedded(Traced, OnEmbedded):
    pass


class TracedSqlite(Traced, OnSqlite):
    pass


class TracedPostgresql(Traced, OnPostgresql):
    pass


STACKS: dict[str, type[ServedStack]] = {stack.name: stack for stack in (TracedEmbedded, TracedSqlite, TracedPostgresql)}


@pytest.fixture(scope="package")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ServedStack]]:
    """Gives the stack of a name, started when it is first asked for."""
    with started_once(STACKS, tmp_path_factory) as start:
        yield start
