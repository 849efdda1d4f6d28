"""The token file: its syntax, its permissions, and the caller of each token."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import SettingsError, Unavailable
from holdfast.gateway.auth import token_file
from holdfast.gateway.auth.audit_log import AuditLog
from holdfast.gateway.auth.principal import Caller, Role
from holdfast.gateway.auth.token_file import TokenFile
from holdfast.gateway.auth.tokens import Tokens, digest_of
from holdfast.gateway.middleware.access import Authentication
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from starlette.types import Message, Receive, Scope, Send

SECRET = "a-secret-0123456789"


def table(*lines: str, name: str = "x", role: str = "user", token: str = f'token = "{SECRET}"') -> str:
    """Returns a valid ``[[token]]`` table, with the given lines and values."""
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
    caller = Tokens.of_one(SECRET).caller(SECRET.encode())
    assert caller is not None
    assert (caller.role, caller.bound) == (Role.OPERATOR, False)


@pytest.mark.parametrize("token", [" ", f"{SECRET}\n", f"a {SECRET}", f"{SECRET}é", "\ud800" * 16, "short", "x" * 1001])
def test_one_that_nobody_could_send_or_anybody_guess_is_refused_in_other_words(token: str) -> None:
    with pytest.raises(SettingsError, match="16 to 1000 visible ASCII characters") as raised:
        Tokens.of_one(token)
    assert SECRET not in str(raised.value)


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
        (f"x = {'[' * 5000}{']' * 5000}", "nested too deeply"),
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
    text = (ROOT / "docs" / "access.md").read_text()
    [example] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(TokenFile(written(tmp_path, example)).tokens()) == 2


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_not_a_regular_file_is_refused_at_the_start(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "tokens.toml")
    with pytest.raises(SettingsError, match=r"tokens\.toml cannot be read: .*\."):
        TokenFile(tmp_path / "tokens.toml")


@asynccontextmanager
async def watched(file: TokenFile) -> AsyncIterator[None]:
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        watch = group.create_task(file.watch())
        yield
        watch.cancel()


async def known(file: TokenFile, token: str) -> None:
    while file.tokens().caller(token.encode()) is None:
        await asyncio.sleep(0.01)


async def told(caplog: pytest.LogCaptureFixture, text: str) -> None:
    while text not in caplog.text:
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


async def test_a_pipe_in_its_place_changes_nothing_and_the_next_file_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(token_file, "LOOK_EVERY_SECONDS", 0.01)
    path = written(tmp_path, table())
    file = TokenFile(path)
    async with watched(file):
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "pipe").rename(path)
        await told(caplog, "it is not a regular file. The previous tokens stay in use")
        await known(file, SECRET)
        path.unlink()
        written(tmp_path, table(token=f'token = "{SECRET}-new"'))
        await known(file, f"{SECRET}-new")


async def test_who_may_read_it_is_looked_at_again_when_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(token_file, "LOOK_EVERY_SECONDS", 0.01)
    path = written(tmp_path, table())
    async with watched(TokenFile(path)):
        path.chmod(0o666)
        await told(caplog, "chmod 600")
        await told(caplog, "was reloaded: 1 token\n")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set when the disk answers."""
    monkeypatch.setattr(token_file, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(token_file, "LOOK_SECONDS", 1)
    answers, read = threading.Event(), token_file.parse

    def parse(text: str) -> Tokens:
        answers.wait()
        return read(text)

    answers.set()
    monkeypatch.setattr(token_file, "parse", parse)
    yield answers
    answers.set()


async def test_a_disk_that_does_not_answer_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answers: threading.Event
) -> None:
    file = TokenFile(written(tmp_path, table()))
    async with watched(file):
        answers.clear()
        written(tmp_path, table(token=f'token = "{SECRET}-new"'))
        await told(caplog, "could not be read within 1 s")
        await known(file, SECRET)
        caplog.clear()
        answers.set()
        await known(file, f"{SECRET}-new")
    assert "could not be read" not in caplog.text


def test_a_disk_that_does_not_answer_keeps_nobody_from_ending(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answers: threading.Event
) -> None:
    file = TokenFile(written(tmp_path, table()))

    async def served() -> None:
        async with watched(file):
            answers.clear()
            written(tmp_path, table(name="another"))
            await told(caplog, "could not be read within 1 s")

    asyncio.run(served())
    assert not answers.is_set()


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
            await told(caplog, "The previous tokens stay in use")
            await known(file, SECRET)
        written(tmp_path, table(token=f'token = "{SECRET}-new"'))
        await known(file, f"{SECRET}-new")


class Descriptors:
    """The file descriptors of the process. While ``used_up``, none is free and opening the token file fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.used_up = False
        self._open = os.open
        monkeypatch.setattr(token_file.os, "open", self._try)

    def _try(self, path: Path, flags: int) -> int:
        if self.used_up:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._open(path, flags)


@pytest.fixture
def descriptors(monkeypatch: pytest.MonkeyPatch) -> Descriptors:
    monkeypatch.setattr(token_file, "LOOK_EVERY_SECONDS", 0.01)
    return Descriptors(monkeypatch)


async def test_a_change_that_could_not_be_read_is_read_later_and_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, descriptors: Descriptors
) -> None:
    file = TokenFile(written(tmp_path, table()))
    async with watched(file):
        descriptors.used_up = True
        written(tmp_path, table(token=f'token = "{SECRET}-new"'))
        await told(caplog, "Too many open files")
        await known(file, SECRET)
        descriptors.used_up = False
        await known(file, f"{SECRET}-new")
        assert file.tokens().caller(SECRET.encode()) is None
    assert caplog.text.count("Too many open files") == 1


async def unverified(file: TokenFile) -> None:
    while True:
        try:
            file.tokens()
        except Unavailable:
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("cause", ["it is gone", "no descriptors", "the disk does not answer"])
async def test_tokens_that_cannot_be_verified_are_refused_until_they_can(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    descriptors: Descriptors,
    answers: threading.Event,
    cause: str,
) -> None:
    monkeypatch.setattr(token_file, "UNVERIFIED_SECONDS", 0.5)
    caplog.set_level("INFO")
    path = written(tmp_path, table())
    file = TokenFile(path)
    async with watched(file):
        if cause == "it is gone":
            path.unlink()
        elif cause == "no descriptors":
            descriptors.used_up = True
            written(tmp_path, table(name="another"))
        else:
            answers.clear()
            written(tmp_path, table(name="another"))
        await unverified(file)
        await told(caplog, "could not be read for 0.5 s: all tokens are refused until it can be read")
        descriptors.used_up = False
        answers.set()
        written(tmp_path, table(token=f'token = "{SECRET}-new"'))
        await told(caplog, "its tokens are accepted")
        await known(file, f"{SECRET}-new")
    assert caplog.text.count("all tokens are refused") == 1


async def test_a_caller_whose_token_cannot_be_verified_is_told_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = TokenFile(written(tmp_path, table()))
    monkeypatch.setattr(token_file, "UNVERIFIED_SECONDS", -1)
    sent: list[Message] = []

    async def reached(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("the request passed, although no token was checked")

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    headers = [(b"authorization", f"Bearer {SECRET}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/queues", "query_string": b"", "headers": headers}
    await Authentication(reached, AuditLog(), file.tokens)(scope, receive, send)
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"1") in sent[0]["headers"]
    body = json.loads(sent[1]["body"])
    assert (body["success"], body["error_code"]) == (False, "UNAVAILABLE")
