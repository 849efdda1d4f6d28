"""Options are also environment variables and keys of ``holdfast.toml``, in groups of commands too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.local.ports import free_port

if TYPE_CHECKING:
    from tests.cli.conftest import Command
    from tests.support.server import Server


def unused_url() -> str:
    return f"http://127.0.0.1:{free_port()}"


def test_the_file_reaches_commands_inside_a_group(holdfast: Command, server: Server, name: str) -> None:
    (holdfast.folder / "holdfast.toml").write_text(f'url = "{server.url}"\npriority = 7\njson = true\n')
    del holdfast.environment["HOLDFAST_URL"]
    assert holdfast("queue", "push", name, "1").json()["count"] == 1
    assert holdfast("queue", "peek", name).json()["messages"][0]["priority"] == 7


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(holdfast: Command, server: Server) -> None:
    (holdfast.folder / "holdfast.toml").write_text(f'url = "{unused_url()}"\n')
    assert holdfast("queue", "list").code == 0
    assert holdfast("queue", "list", HOLDFAST_URL=unused_url()).code == 5
    assert holdfast("queue", "list", "--url", server.url, HOLDFAST_URL=unused_url()).code == 0


def test_a_key_goes_by_the_name_of_its_option(holdfast: Command) -> None:
    (holdfast.folder / "holdfast.toml").write_text('host = "nonsense"\n')
    ended = holdfast("serve")
    assert ended.code == 2
    assert "'nonsense' is not one of" in ended.error


def test_a_key_that_no_option_goes_by_stops_every_command(holdfast: Command) -> None:
    (holdfast.folder / "holdfast.toml").write_text("prioritty = 1\n")
    ended = holdfast("queue", "list")
    assert ended.code == 1
    assert ended.error.startswith("holdfast: holdfast.toml has an unknown key: prioritty.")


def test_help_names_the_variable_of_every_option(holdfast: Command) -> None:
    shown = holdfast("queue", "pop", "--help", COLUMNS="200").output
    for variable in ("HOLDFAST_URL", "HOLDFAST_TOKEN", "HOLDFAST_COUNT", "HOLDFAST_WAIT", "HOLDFAST_TTL"):
        assert variable in shown


def test_the_doctor_has_them_too(holdfast: Command) -> None:
    (holdfast.folder / "holdfast.toml").write_text('json = true\nfor = ["embedded", "tilt"]\n')
    assert holdfast("doctor").json()["for"] == ["embedded", "tilt"]
    assert holdfast("doctor", HOLDFAST_FOR="embedded spark").json()["for"] == ["embedded", "spark"]


def test_a_host_name_that_is_none_is_one_sentence(holdfast: Command) -> None:
    for name in ("http://queues.example", "queues.example:8080", "a b", ""):
        ended = holdfast("serve", "--allowed-host", name)
        assert ended.code == 1
        assert "is not a host name for --allowed-host" in ended.error


def test_a_repeatable_option_is_a_list_or_one_value_of_the_file(holdfast: Command) -> None:
    for value in ('"queues.example:1"', '["fine.example", "queues.example:1"]'):
        (holdfast.folder / "holdfast.toml").write_text(f"allowed-host = {value}\n")
        assert "'queues.example:1' is not a host name" in holdfast("serve").error
    (holdfast.folder / "holdfast.toml").unlink()
    assert "'b:1' is not a host name" in holdfast("serve", HOLDFAST_ALLOWED_HOST="a.example b:1").error


def test_variables_that_kubernetes_and_ci_set_are_no_options(holdfast: Command, server: Server) -> None:
    address = f"tcp://127.0.0.1:{server.port}"
    links = {
        "HOLDFAST_PORT": address,
        "HOLDFAST_GRPC_PORT": address,
        "HOLDFAST_PORT_8080_TCP": address,
        "HOLDFAST_PORT_8080_TCP_ADDR": "127.0.0.1",
        "HOLDFAST_SERVICE_HOST": "127.0.0.1",
        "HOLDFAST_SERVICE_PORT": str(server.port),
        "HOLDFAST_VERSION": "1.2.3",
    }
    # Stops at the port that is in use, which is read after every option.
    ended = holdfast("serve", "--listen", "127.0.0.1", "--port", str(server.port), **links)
    assert ended.code == 1
    assert ended.error.startswith(f"holdfast: Cannot listen on 127.0.0.1 port {server.port}")
    ended = holdfast("serve", "--allowed-host", "a:1", **links)
    assert "'a:1' is not a host name" in ended.error
    assert "is not a valid integer" in holdfast("serve", HOLDFAST_PORT="eighty").error
    started = holdfast("orchestration", "start", "greeting", '"ann"', "--within", "60", **links)
    assert started.code == 0, started.error


def test_a_number_has_to_be_finite(holdfast: Command) -> None:
    for number in ("nan", "inf"):
        ended = holdfast("serve", "--drain-timeout", number)
        assert ended.code == 2
        assert "'--drain-timeout'" in ended.error
        assert "finite" in ended.error


def test_the_retention_of_instances_is_not_that_of_a_record(holdfast: Command, name: str) -> None:
    (holdfast.folder / "holdfast.toml").write_text("retention = 63072000\n")
    owner = holdfast("idempotency", "begin", name).output.strip()
    committed = holdfast("idempotency", "commit", name, "--owner", owner)
    assert (committed.code, committed.error) == (0, "")
    ended = holdfast("idempotency", "commit", name, "--owner", owner, HOLDFAST_IDEMPOTENCY_RETENTION="0")
    assert ended.code == 2


def test_an_app_id_that_would_break_the_keys_is_refused(holdfast: Command) -> None:
    for app_id in ("a||b", ""):
        ended = holdfast("serve", "--port", "0", "--app-id", app_id)
        assert ended.code == 1
        assert ended.error.startswith("holdfast: This app id is not valid: ")
