"""Where a command takes its token from, and where it does not send it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cli.conftest import Command

TOKEN = "a-token-0123456789abcdef"

WORK = """
import holdfast

app = holdfast.App()

@app.activity
def nothing() -> None: ...
"""

pytestmark = pytest.mark.xdist_group("cli")


@pytest.fixture(scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text(TOKEN + "\n")
    async with Server(folder, "--token-file", str(folder / "token")) as running:
        yield running


@pytest.fixture
def file(holdfast: Command) -> Path:
    file = holdfast.folder / "token"
    file.write_text(TOKEN + "\n")
    return file


def test_a_token_in_a_file_opens_the_server(holdfast: Command, guarded: Server, file: Path) -> None:
    assert holdfast("queue", "list", "--url", guarded.url).code == 1
    assert holdfast("queue", "list", "--url", guarded.url, "--token-file", str(file)).code == 0
    assert holdfast("queue", "list", "--url", guarded.url, HOLDFAST_TOKEN_FILE=str(file)).code == 0


def test_the_command_line_wins_over_the_environment(holdfast: Command, guarded: Server, file: Path) -> None:
    wrong = "another-0123456789abcdef"
    assert holdfast("queue", "list", "--url", guarded.url, "--token-file", str(file), HOLDFAST_TOKEN=wrong).code == 0
    assert holdfast("queue", "list", "--url", guarded.url, "--token", wrong, HOLDFAST_TOKEN_FILE=str(file)).code == 1


def test_two_tokens_are_one_too_many(holdfast: Command, file: Path) -> None:
    for command in (("queue", "list"), ("serve", "--port", "0")):
        ended = holdfast(*command, "--token", TOKEN, "--token-file", str(file))
        assert ended.code in (1, 2)
        assert "set --token or --token-file, not both" in ended.error


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "cannot be read"), (b"", "There is no token"), (b"\xff" * 20, "There is no token")]
)
def test_a_file_without_a_token_is_one_sentence(holdfast: Command, content: bytes | None, reason: str) -> None:
    if content is not None:
        (holdfast.folder / "token").write_bytes(content)
    for command in (("queue", "list"), ("serve", "--port", "0")):
        ended = holdfast(*command, "--token-file", "token")
        assert ended.code in (1, 2)
        assert reason in ended.error
        assert ended.error.count("\n") == 1


def settings(holdfast: Command, text: str) -> None:
    (holdfast.folder / "holdfast.toml").write_text(text)
    del holdfast.environment["HOLDFAST_URL"]


def test_a_settings_file_does_not_send_the_token_of_the_environment_elsewhere(
    holdfast: Command, guarded: Server, file: Path
) -> None:
    settings(holdfast, f'url = "{guarded.url}"\n')
    (holdfast.folder / "work.py").write_text(WORK)
    for variables in ({"HOLDFAST_TOKEN": TOKEN}, {"HOLDFAST_TOKEN_FILE": str(file)}):
        for command in (("queue", "list"), ("orchestration", "list"), ("worker", "work:app")):
            ended = holdfast(*command, **variables)
            assert ended.code in (1, 2)
            assert (
                f"is not sent to {guarded.url}, which only holdfast.toml in the working directory names" in ended.error
            )
        assert holdfast("queue", "list", "--url", guarded.url, **variables).code == 0
        assert holdfast("queue", "list", HOLDFAST_URL=guarded.url, **variables).code == 0
    assert holdfast("queue", "list", "--token", TOKEN).code == 0


def test_a_settings_file_may_name_a_server_and_its_token(holdfast: Command, guarded: Server, file: Path) -> None:
    settings(holdfast, f'url = "{guarded.url}"\ntoken = "{TOKEN}"\n')
    assert holdfast("queue", "list").code == 0
    (holdfast.folder / "holdfast.toml").write_text(f'url = "{guarded.url}"\ntoken-file = "token"\n')
    assert holdfast("queue", "list").code == 0


def test_a_settings_file_does_not_send_files_from_elsewhere(
    holdfast: Command, guarded: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "another user's secret"
    secret.write_text(TOKEN)
    (holdfast.folder / "link").symlink_to(secret)
    settings(holdfast, "")
    for name in (str(secret), "link"):
        (holdfast.folder / "holdfast.toml").write_text(f'url = "{guarded.url}"\ntoken-file = "{name}"\n')
        ended = holdfast("queue", "list")
        assert ended.code == 2
        assert "names a server and a token file outside this directory" in ended.error
        assert holdfast("queue", "list", "--url", guarded.url).code == 0
