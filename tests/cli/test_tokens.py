"""``holdfast token``, and a server that is given tokens."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from holdfast.client import Client
from holdfast.errors import Forbidden, Unauthorized
from holdfast.gateway.auth.token_file import TokenFile
from tests.support.server import Server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Command

# One worker starts what they share.
pytestmark = pytest.mark.xdist_group("cli")

_OUTSIDE = ("serve", "--port", "0", "--listen", "0.0.0.0")


def secret_of(told: str) -> str:
    [secret] = [line for line in told.splitlines() if line.startswith("hf_")]
    return secret


async def test_a_new_token_opens_a_server_that_has_its_table(holdfast: Command, tmp_path: Path) -> None:
    made = holdfast.inside("token", "new", "--name", "billing", "--role", "reader", "--tenant", "*")
    assert made.code == 0
    assert "The token of a reader of all tenants" in made.error
    secret = secret_of(made.error)
    [table] = tomllib.loads(made.output)["token"]
    assert (table["name"], table["role"], table["tenant"]) == ("billing", "reader", "*")
    assert secret not in made.output
    file = tmp_path / "tokens.toml"
    file.write_text(made.output + holdfast.inside("token", "new", "--name", "other", "--tenant", "acme").output)
    file.chmod(0o600)
    async with Server(tmp_path, "--tokens", str(file)) as server, Client(server.url, token=secret) as client:
        assert (await client.queue("orders").stats()).count == 0
        with pytest.raises(Forbidden, match="user"):
            await client.queue("orders").push(1)
        async with Client(server.url, token=f"{secret}x") as stranger:
            with pytest.raises(Unauthorized):
                await stranger.queue("orders").push(1)


def test_no_two_tokens_are_the_same(holdfast: Command, tmp_path: Path) -> None:
    tables = [holdfast.inside("token", "new", "--name", f"one-{number}", "--tenant", "*").output for number in range(5)]
    file = tmp_path / "tokens.toml"
    file.write_text("".join(tables))
    assert len(TokenFile(file).tokens()) == 5


@pytest.mark.parametrize(
    "options",
    [
        ("--name", "a b", "--tenant", "*"),
        ("--name", "x", "--tenant", "a||b"),
        ("--name", "x\n[[token]]", "--tenant", "*"),
    ],
)
def test_a_name_that_is_none_is_one_sentence(holdfast: Command, options: tuple[str, ...]) -> None:
    ended = holdfast("token", "new", *options)
    assert (ended.code, ended.output) == (2, "")
    assert [line.partition(": ")[0] for line in ended.error.splitlines() if "This " in line] == ["Error"]
    assert "[[token]]" not in ended.error


def test_a_token_says_whose_it_is(holdfast: Command) -> None:
    ended = holdfast("token", "new", "--name", "x")
    assert (ended.code, ended.output) == (2, "")
    assert "Missing option '--tenant'" in ended.error
    made = holdfast("token", "new", "--name", "x", HOLDFAST_TENANT="acme")
    assert 'tenant = "acme"' in made.output
    assert "The token of a user of the tenant acme" in made.error


def test_beyond_loopback_a_token_or_a_file_of_them_is_needed(holdfast: Command) -> None:
    ended = holdfast(*_OUTSIDE)
    assert ended.code == 1
    assert "--token-file, HOLDFAST_TOKEN or --tokens" in ended.error


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "cannot be read"), ("", "token: is missing"), ("[[token", "is not TOML")]
)
def test_a_file_that_is_not_right_stops_the_start_in_one_sentence(
    holdfast: Command, tmp_path: Path, text: str | None, reason: str
) -> None:
    file = tmp_path / "tokens.toml"
    if text is not None:
        file.write_text(text)
    ended = holdfast(*_OUTSIDE, HOLDFAST_TOKENS=str(file))
    assert (ended.code, ended.output) == (1, "")
    assert reason in ended.error
    assert ended.error.count("\n") == 1


@pytest.mark.parametrize("token", ["0123456789abcdef\n", " ", "short"])
def test_a_token_that_nobody_could_send_stops_the_start(holdfast: Command, token: str) -> None:
    ended = holdfast("serve", "--port", "0", "--token", token)
    assert (ended.code, ended.output) == (1, "")
    assert ended.error.startswith("holdfast: A token must have 16 to 1000 visible ASCII characters")
    assert ended.error.count("\n") == 1


def test_a_token_that_no_header_carries_is_wrong_usage(holdfast: Command) -> None:
    ended = holdfast.queue("list", "--token", "a-secret\n0123456789")
    assert (ended.code, ended.output) == (2, "")
    assert ended.error.startswith("holdfast: The token has characters that are not allowed in tokens")
    assert "secret" not in ended.error


def test_a_token_and_a_file_of_them_are_one_too_many(holdfast: Command, tmp_path: Path) -> None:
    ended = holdfast("serve", "--port", "0", "--tokens", str(tmp_path / "tokens.toml"), HOLDFAST_TOKEN="from elsewhere")
    assert ended.code == 1
    assert "not both" in ended.error
