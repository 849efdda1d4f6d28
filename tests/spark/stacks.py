"""The stacks whose stores Spark reads: all that Holdfast can be served on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.local import write_component
from tests.behaviour.stacks import OnEmbedded, OnPostgresql, OnSqlite

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.stacks.served import ServedStack


class Embedded(OnEmbedded):
    @property
    def url(self) -> str:
        return f"sqlite://{self._database}"


class Sqlite(OnSqlite):
    @property
    def url(self) -> str:
        return f"sqlite:///{self._database}"


class Postgresql(OnPostgresql):
    @property
    def url(self) -> str:
        return self._url


class PostgresqlV1(Postgresql):
    name = "daprd-postgresql-v1"

    async def _store(self, resources: Path) -> None:
        await super()._store(resources)
        write_component("postgresql-v1", resources, connection=self._url)


STACKS: dict[str, type[ServedStack]] = {stack.name: stack for stack in (Embedded, Sqlite, Postgresql, PostgresqlV1)}
