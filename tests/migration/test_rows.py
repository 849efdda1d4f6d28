"""``holdfast migrate`` between all kinds of databases, without a server: every row is moved, deadlines are listed."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner
from yarl import URL

from holdfast.cli.main import cli
from holdfast.errors import HoldfastError
from holdfast.kinds import IDEMPOTENCY_TYPE, OWN_TYPES, WAKE_LIST_TYPE
from holdfast.runtime.embedded import sqlite
from holdfast.runtime.embedded.data_folder import DataFolder
from holdfast.runtime.late_reminders import WAKE
from holdfast.state_store.postgresql_table import PostgresqlSource
from tests.golden.test_golden import GOLDEN
from tests.golden.test_golden import restore as restore_golden

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

    from holdfast.state_store.rows import StoredRow

pytestmark = pytest.mark.xdist_group("migration")

NUMBER = 2**53 + 1
#: Values of an app's actor.
OF_APP: dict[str, Any] = {
    "holdfast||Cart||ann||lines": {"total": 1.0, "number": NUMBER},
    "holdfast||Cart||ann||like-a-wrapper": {"$json": "1"},
    "holdfast||Cart||bob||text": "ä €  \\u0000",
}
REMINDER = {
    "actor_type": "Cart",
    "actor_id": "ann",
    "name": "check",
    "version": "1",
    "due_at": 4e9,
    "due_time": "1h",
    "period": "R5/PT1H",
    "ttl": "",
    "data": '"YWdhaW4="',
    "repeats_left": 3,
    "expires_at": 5e9,
    "failures": 0,
    "retry_interval": 2.0,
    "max_retries": None,
}


def make_file(file: Path, rows: Iterable[tuple[Any, ...]] = (), *, embedded: bool = True) -> str:
    """Makes a store of rows of key, value, is_binary and expiration; returns its URL."""
    file.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript(sqlite.SCHEMA if embedded else sqlite.STATE_SCHEMA)
        connection.executemany(
            "INSERT INTO state (key, value, is_binary, etag, expiration_time) VALUES (?, ?, ?, '1', ?)", rows
        )
    return f"sqlite://{file}"


@pytest.fixture
def golden(tmp_path: Path) -> str:
    """The golden store, with state and a reminder of an app's own actor."""
    restore_golden(tmp_path)
    file = tmp_path / "data" / "holdfast.db"
    rows = [(key, json.dumps(value, ensure_ascii=False), 0, None) for key, value in OF_APP.items()]
    raw = base64.b64encode(b"\x00\xff").decode()
    rows += [
        ("holdfast||Cart||ann||raw", raw, 1, "2999-12-31 00:00:00"),
        ("holdfast||Cart||x||old", "1", 0, "2001-01-01"),
    ]
    make_file(file, rows)
    with closing(sqlite3.connect(file)) as connection, connection:
        add_reminder(connection, REMINDER)
    return f"sqlite://{file}"


def add_reminder(connection: sqlite3.Connection, reminder: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(reminder))
    connection.execute(
        f"INSERT INTO holdfast_reminders ({', '.join(reminder)}) VALUES ({marks})", tuple(reminder.values())
    )


def moved(source: str, target: str, *options: str) -> str:
    done = CliRunner().invoke(cli, ["migrate", "--from", source, "--to", target, *options])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def stored(url: str) -> dict[str, tuple[Any, bool, float | None]]:
    """Returns value, whether it is binary, and expiry of each row that has not expired, by key."""
    query = (
        "SELECT key, value, is_binary, CAST(strftime('%s', expiration_time) AS INTEGER) FROM state "
        "WHERE expiration_time IS NULL OR expiration_time > CURRENT_TIMESTAMP"
    )
    with closing(sqlite3.connect(url.removeprefix("sqlite://"))) as connection:
        return {
            key: (value if binary else json.loads(value), bool(binary), expires)
            for key, value, binary, expires in connection.execute(query)
        }


def wake_list(url: str) -> list[Any]:
    rows = stored(url)
    pages = {key.rpartition("||")[2]: value for key, (value, _, _) in rows.items() if f"||{WAKE_LIST_TYPE}||" in key}
    first, following = pages.pop("pages")
    assert pages.keys() == {f"page-{number}" for number in range(first, following)}
    return [entry for page in pages.values() for entry in page]


def without_list(rows: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rows.items() if f"||{WAKE_LIST_TYPE}||" not in key}


@pytest.mark.parametrize("kind", ["sqlite", "v1", "v2"])
async def test_everything_comes_back_from_a_store_of_dapr(
    golden: str, kind: str, tmp_path: Path, new_database: Callable[[], Awaitable[str]]
) -> None:
    between = f"sqlite://{tmp_path}/state.db" if kind == "sqlite" else await new_database()
    back = f"sqlite://{tmp_path}/back/holdfast.db"
    before = stored(golden)
    there = moved(golden, between, *(() if kind == "sqlite" else ("--create", kind)))
    assert "1 reminder of apps' actors" in there
    assert "WARNING" not in there
    returned = moved(between, back)
    assert "WARNING: reminders of your own actors (Cart) are in Dapr's scheduler" in returned
    assert stored(golden) == before  # the source is unchanged
    assert without_list(stored(back)) == before
    # The list was not worked off in between, so it still has the app's reminder.
    [of_app] = [entry for entry in wake_list(back) if isinstance(entry, dict)]
    assert of_app == {
        **{name: REMINDER[name] for name in ("actor_type", "actor_id", "name", "due_at")},
        "ttl_at": REMINDER["expires_at"],
        "body": {"period": "R3/PT1H", "data": "YWdhaW4=", "failurePolicy": {"constant": {"interval": "2.000000s"}}},
    }


async def test_what_postgresql_v1_cannot_store_is_named(
    tmp_path: Path, new_database: Callable[[], Awaitable[str]]
) -> None:
    texts = ["a \\u0000", "a\0"]
    rows = [(f"holdfast||Cart||{number}||text", json.dumps(text), 0, None) for number, text in enumerate(texts)]
    source, target = make_file(tmp_path / "data" / "holdfast.db", rows), await new_database()
    with pytest.raises(HoldfastError, match=r"Cart\|\|1\|\|text has the character U\+0000.* use v2"):
        moved(source, target, "--create", "v1")
    moved(source, target, "--create", "v2")
    moved(target, f"sqlite://{tmp_path}/back/holdfast.db")
    assert [stored(f"sqlite://{tmp_path}/back/holdfast.db")[key][0] for key, *_ in rows] == texts


def test_numbers_of_apps_are_stored_as_daprs_host_reads_them(golden: str, tmp_path: Path) -> None:
    moved(golden, f"sqlite://{tmp_path}/state.db")
    rows = stored(f"sqlite://{tmp_path}/state.db")
    wrapped, _, _ = rows["holdfast||Cart||ann||lines"]
    assert json.loads(wrapped["$json"]) == OF_APP["holdfast||Cart||ann||lines"]
    assert rows["holdfast||Cart||bob||text"][0] == OF_APP["holdfast||Cart||bob||text"]


def test_every_deadline_is_in_the_list(golden: str, tmp_path: Path) -> None:
    """The reminders of the embedded host are what its actors need."""
    moved(golden, f"sqlite://{tmp_path}/state.db", "--to-app-id", "other")
    listed = {
        tuple(entry[:2]): entry[2:] for entry in wake_list(f"sqlite://{tmp_path}/state.db") if isinstance(entry, list)
    }
    reminders = [row for row in GOLDEN["tables"]["holdfast_reminders"] if row["actor_type"] in OWN_TYPES]
    assert reminders
    for row in reminders:
        due = listed[row["actor_type"], row["actor_id"]]
        # A commit leaves the reminder of the begin, which then only registers the next one.
        is_early = row["actor_type"] == IDEMPOTENCY_TYPE
        assert not due or due[0] <= row["due_at"] + 1 or is_early
    assert all(key.startswith("other||") for key in stored(f"sqlite://{tmp_path}/state.db"))


def test_ended_instances_are_woken_when_their_retention_is_over(golden: str, tmp_path: Path) -> None:
    def ended(url: str) -> set[str]:
        woken = {tuple(entry[:2]) for entry in wake_list(url) if isinstance(entry, list)}
        return {name for name in ("large", "broken") if ("OrchestrationActor", name) in woken}

    for name, options in (("kept", ()), ("deleted", ("--retention", "60"))):
        moved(golden, f"sqlite://{tmp_path}/{name}.db", *options)
    assert ended(f"sqlite://{tmp_path}/kept.db") == set()
    assert ended(f"sqlite://{tmp_path}/deleted.db") == {"large", "broken"}


def test_an_instance_that_its_own_reminder_recovers_is_woken(golden: str, tmp_path: Path) -> None:
    """Its process crashed before it had sent its effects, and no rescuer knows of it."""
    with closing(sqlite3.connect(golden.removeprefix("sqlite://"))) as connection, connection:
        add_reminder(connection, REMINDER | {"actor_type": "OrchestrationActor", "actor_id": "large", "name": WAKE})
    moved(golden, f"sqlite://{tmp_path}/state.db")
    assert ["OrchestrationActor", "large"] in wake_list(f"sqlite://{tmp_path}/state.db")


async def test_a_migration_that_fails_leaves_nothing(
    tmp_path: Path, new_database: Callable[[], Awaitable[str]]
) -> None:
    rows = [(f"holdfast||Cart||{number}||value", "1", 0, None) for number in range(5000)]
    newer = ("holdfast||PushPopActor||q||metadata", '{"_format": 99}', 0, None)
    source = make_file(tmp_path / "data" / "holdfast.db", [*rows, newer])
    postgresql = await new_database()
    for target, options in (
        (postgresql, ["--create", "v2"]),
        (f"sqlite://{tmp_path}/state.db", []),
        (f"sqlite://{tmp_path}/embedded/holdfast.db", []),
    ):
        with pytest.raises(HoldfastError, match=r"PushPopActor\|\|q\|\|metadata .* format 99, of a later version"):
            moved(source, target, *options)
        if target.startswith("sqlite"):
            with closing(sqlite3.connect(target.removeprefix("sqlite://"))) as connection:
                assert connection.execute("SELECT * FROM sqlite_master").fetchall() == []
    with psycopg.connect(postgresql) as connected:
        assert connected.execute("SELECT to_regclass('state')").fetchone() == (None,)


async def test_a_target_that_is_not_empty_is_refused(
    tmp_path: Path, new_database: Callable[[], Awaitable[str]]
) -> None:
    source = make_file(tmp_path / "data" / "holdfast.db", [("holdfast||Cart||1||value", "1", 0, None)])
    postgresql = await new_database()
    moved(source, postgresql, "--create", "v1")
    moved(source, f"sqlite://{tmp_path}/state.db")
    for target in (postgresql, f"sqlite://{tmp_path}/state.db"):
        with pytest.raises(HoldfastError, match="The target has 1 values of the app id 'holdfast' already"):
            moved(source, target)
        # Of another app, it is empty.
        moved(source, target, "--to-app-id", "other")


async def test_databases_in_use_are_refused(tmp_path: Path, new_database: Callable[[], Awaitable[str]]) -> None:
    source = make_file(tmp_path / "data" / "holdfast.db", [("holdfast||Cart||1||value", "1", 0, None)])
    postgresql = await new_database()
    folder = DataFolder(tmp_path / "data")
    folder.claim()
    with pytest.raises(HoldfastError, match="is in use by process"):
        moved(source, postgresql)
    folder.release()
    file = tmp_path / "state.db"
    with closing(sqlite3.connect(file)) as daprd:
        daprd.execute("PRAGMA journal_mode = WAL")
        daprd.execute("CREATE TABLE other (x)")
        with pytest.raises(HoldfastError, match=r"state.db is in use: stop the server and its daprd"):
            moved(source, f"sqlite://{file}")
    with psycopg.connect(postgresql, application_name="daprd"):
        with pytest.raises(HoldfastError, match=r"has 1 other connections: daprd \(process \d+\). Stop the servers"):
            moved(source, postgresql, "--create", "v2")
        moved(source, postgresql, "--create", "v2", "--ignore-connections")


async def test_connections_of_another_role_are_seen_without_privileges(
    tmp_path: Path, new_database: Callable[[], Awaitable[str]]
) -> None:
    """PostgreSQL then hides what kind of connections they are."""
    source = make_file(tmp_path / "data" / "holdfast.db", [("holdfast||Cart||1||value", "1", 0, None)])
    postgresql = await new_database()
    moved(source, postgresql, "--create", "v2")
    as_mover = str(URL(postgresql).with_user("mover").with_password("of-the-mover"))
    target = f"sqlite://{tmp_path}/back/holdfast.db"
    with psycopg.connect(postgresql, application_name="daprd", autocommit=True) as connected:
        connected.execute("CREATE ROLE mover LOGIN PASSWORD 'of-the-mover'")
        connected.execute("GRANT SELECT ON state TO mover")
        with pytest.raises(HoldfastError, match=r"has 1 other connections: .*process \d+"):
            moved(as_mover, target)
    moved(as_mover, target)


async def test_a_source_that_comes_into_use_meanwhile_is_refused(
    tmp_path: Path, new_database: Callable[[], Awaitable[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The migration would leave behind what the server stores after its start."""
    source = make_file(tmp_path / "data" / "holdfast.db", [("holdfast||Cart||1||value", "1", 0, None)])
    postgresql = await new_database()
    moved(source, postgresql, "--create", "v2")
    target = tmp_path / "state.db"
    rows = PostgresqlSource.rows
    with ExitStack() as stack:

        def rows_while_daprd_starts(self: PostgresqlSource, app_id: str) -> Iterator[StoredRow]:
            yield from rows(self, app_id)
            stack.enter_context(psycopg.connect(postgresql, application_name="daprd"))

        monkeypatch.setattr(PostgresqlSource, "rows", rows_while_daprd_starts)
        with pytest.raises(HoldfastError, match=r"has 1 other connections: daprd \(process \d+\). Stop the servers"):
            moved(postgresql, f"sqlite://{target}")
        with closing(sqlite3.connect(target)) as connection:
            assert connection.execute("SELECT * FROM sqlite_master").fetchall() == []
        moved(postgresql, f"sqlite://{target}", "--ignore-connections")


@pytest.mark.parametrize(
    ("rows", "options", "sentence"),
    [
        ([], (), "The source has no state of actors: there is nothing to move"),
        (["a||Cart||1||v", "b||Cart||1||v"], (), "state of several apps: name one with --app-id: a, b"),
        (["a||Cart||1||v"], ("--app-id", "b"), "no state of actors of the app id 'b'.* The app ids there are a"),
        (["a||Cart||1||v"], ("--from-table", "other"), "has no table other .* name the table with --from-table"),
        (["a||Cart||1||v"], ("--to-app-id", "a||b"), "This --to-app-id is not valid"),
        (["a||Cart||1||v"], ("--to-app-id", ""), "This --to-app-id is not valid"),
        (["a||Cart||1||v"], ("--create", "v1"), "--create is for PostgreSQL"),
        (["a||OrchestrationActor||1||instance"], (), r"OrchestrationActor\|\|1\|\|instance is damaged"),
    ],
)
def test_what_cannot_be_moved_is_refused(
    rows: list[str], options: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    source = make_file(tmp_path / "data" / "holdfast.db", [(key, "1", 0, None) for key in rows])
    with pytest.raises(HoldfastError, match=sentence):
        moved(source, f"sqlite://{tmp_path}/state.db", *options)


def test_what_is_not_holdfasts_stays_behind(tmp_path: Path) -> None:
    rows = ["a||Cart||1||v", "a||plain", "b||plain", "a||dapr.internal.default.a.workflow||1||metadata"]
    source = make_file(tmp_path / "state.db", [(key, "1", 0, None) for key in rows], embedded=False)
    said = moved(source, f"sqlite://{tmp_path}/new/holdfast.db", "--app-id", "a")
    assert "Left behind: 1 value not of actors." in said
    assert "Left behind: 1 value of Dapr's own workflows." in said
    assert stored(f"sqlite://{tmp_path}/new/holdfast.db").keys() == {"a||Cart||1||v"}


_WITHOUT_DRIVER = """
import sys
sys.modules["psycopg"] = None
from holdfast.cli.main import main
sys.argv = ["holdfast", "migrate", "--from", "postgresql://db/shop", "--to", "sqlite:///tmp/none.db"]
main()
"""


def test_without_the_driver_it_says_how_to_get_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DRIVER], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "holdfast: PostgreSQL's driver is an extra of Holdfast: pip install 'holdfast[postgresql]'.\n"


def test_passwords_are_not_shown() -> None:
    with pytest.raises(HoldfastError) as refused:
        moved("postgresql://ann:s3cret@127.0.0.1:1/shop", "sqlite:///tmp/none.db")
    assert "s3cret" not in str(refused.value)
    assert CliRunner().invoke(cli, ["migrate", "--from", "mysql://ann:s3cret@db", "--to", "x"]).exit_code == 2
