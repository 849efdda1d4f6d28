"""What a file of tokens says, and whom a token stands for."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import SettingsError
from holdfast.gateway import token_file
from holdfast.gateway.callers import Caller, Role
from holdfast.gateway.token_file import TokenFile
from holdfast.gateway.tokens import Tokens, digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SECRET = "a-secret-0123456789"


def table(*lines: str, name: str = "x", role: str = "user", token: str = f'token = "{SECRET}"') -> str:
    """One that is right, but for what is said here."""
    tenants = [] if any(line.startswith("tenant") for line in lines) else ['tenant = "*"']
    return "\n".join(["[[token]]", f'name = "{name}"', f'role = "{role}"', *tenants, *lines, token, ""])


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "tokens.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_token_stands_for_its_caller(tmp_path: Path) -> None:
    digest = digest_of(b"another-secret-0123").hex()
    file = written(
        tmp_path,
        f"""
        [[token]]
        name = "billing"
        role = "user"
        tenant = "acme"
        token = "{SECRET}"

        [[token]]
        name = "ops"
        role = "operator"
        tenant = "*"
        sha256 = "{digest.upper()}"
        """,
    )
    tokens = TokenFile(file).tokens()
    assert tokens.caller(SECRET.encode()) == Caller("acme", Role.USER, "billing", bound=True)
    assert tokens.caller(b"another-secret-0123") == Caller("default", Role.OPERATOR, "ops", bound=False)
    for wrong in (
        b"",
        b"billing",
        digest.encode(),
        SECRET[:-1].encode(),
        SECRET.encode() + b" ",
        bytes.fromhex(digest),
    ):
        assert tokens.caller(wrong) is None


def test_a_token_of_the_default_tenant_may_be_bound_to_it(tmp_path: Path) -> None:
    file = written(tmp_path, table('tenant = "default"'))
    assert TokenFile(file).tokens().caller(SECRET.encode()) == Caller("default", Role.USER, "x", bound=True)


def test_one_token_alone_may_do_everything() -> None:
    caller = Tokens.of_one("open sesame").caller(b"open sesame")
    assert caller is not None
    assert (caller.role, caller.bound) == (Role.OPERATOR, False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "token: is missing"),
        ("token = []", "at least 1"),
        ("[[token]", "not TOML"),
        (f'[[token]]\ntoken = "{SECRET}"', "name: is missing"),
        (f'[[token]]\nname = "x"\ntenant = "*"\ntoken = "{SECRET}"', "role: is missing"),
        (f'[[token]]\nname = "x"\nrole = "user"\ntoken = "{SECRET}"', "tenant: is missing"),
        (table(token=""), "either"),
        (table(f'sha256 = "{"0" * 64}"'), "either"),
        (table(token='token = "short"'), "at least 16"),
        (table(token='token = "with a space in it 0123"'), "token"),
        (table(token='sha256 = "cafe"'), "sha256"),
        (table(name="x y"), "name"),
        (table(role="root"), "'reader', 'user' or 'operator'"),
        (table('tenant = "a@b"'), "tenant"),
        (table('tenant = ""'), "tenant"),
        (table('tenant = "**"'), "tenant"),
        (table('rights = "all"'), "rights: is not known here"),
        (table() + table(name="y"), "same token"),
        (table() + table(token=f'token = "{SECRET}2"'), "two tokens"),
        (f"x = {'[' * 5000}{']' * 5000}", "nested too deep"),
    ],
)
def test_a_file_that_is_not_right_is_one_sentence_without_a_secret(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SettingsError) as raised:
        TokenFile(written(tmp_path, text))
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)
    assert str(raised.value).endswith(".")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml cannot be read: No such file"):
        TokenFile(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("mode", "told"), [(0o600, False), (0o640, False), (0o644, True), (0o602, True), (0o620, True)]
)
def test_a_file_that_others_may_read_or_change_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, told: bool
) -> None:
    TokenFile(written(tmp_path, table(), mode))
    assert ("chmod 600" in caplog.text) is told


def test_the_example_in_the_documentation_is_right(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "access.md").read_text()
    [example] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(TokenFile(written(tmp_path, example)).tokens()) == 2


@asynccontextmanager
async def watched(file: TokenFile) -> AsyncIterator[None]:
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        watch = group.create_task(file.watch())
        yield
        watch.cancel()


async def known(file: TokenFile, token: str) -> None:
    while file.tokens().caller(token.encode()) is None:
        await asyncio.sleep(0.01)


async def test_whoever_asks_has_it_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_file, "LOOK_EVERY_SECONDS", 3600)
    file = TokenFile(written(tmp_path, table()))
    async with watched(file):
        for number in range(3):
            written(tmp_path, table(token=f'token = "{SECRET}{number}"'))
            file.look_now()
            await known(file, f"{SECRET}{number}")
            assert file.tokens().caller(SECRET.encode()) is None


@pytest.mark.parametrize("error", [MemoryError, RuntimeError, RecursionError])
async def test_whatever_goes_wrong_the_next_change_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    monkeypatch.setattr(token_file, "LOOK_EVERY_SECONDS", 0.01)
    file = TokenFile(written(tmp_path, table()))

    def broken(text: str) -> Tokens:
        raise error(text)

    async with watched(file):
        with monkeypatch.context() as patched:
            patched.setattr(token_file, "parse", broken)
            written(tmp_path, table(name="another"))
            while "The tokens of before stay." not in caplog.text:
                await asyncio.sleep(0.01)
            await known(file, SECRET)
        written(tmp_path, table(token=f'token = "{SECRET}-new"'))
        await known(file, f"{SECRET}-new")
