"""What a file of tokens says, and whom a token stands for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.errors import SettingsError
from holdfast.gateway.callers import Caller, Role
from holdfast.gateway.token_file import TokenFile
from holdfast.gateway.tokens import Tokens, digest_of

SECRET = "a-secret-0123456789"


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
        tenant = "acme"
        token = "{SECRET}"

        [[token]]
        name = "ops"
        role = "operator"
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
    file = written(tmp_path, f'[[token]]\nname = "x"\ntenant = "default"\ntoken = "{SECRET}"')
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
        ('[[token]]\nname = "x"', "either"),
        (f'[[token]]\nname = "x"\ntoken = "{SECRET}"\nsha256 = "{"0" * 64}"', "either"),
        ('[[token]]\nname = "x"\ntoken = "short"', "at least 16"),
        ('[[token]]\nname = "x"\ntoken = "with a space in it 0123"', "token"),
        ('[[token]]\nname = "x"\nsha256 = "cafe"', "sha256"),
        (f'[[token]]\nname = "x y"\ntoken = "{SECRET}"', "name"),
        (f'[[token]]\nname = "x"\nrole = "root"\ntoken = "{SECRET}"', "'reader', 'user' or 'operator'"),
        (f'[[token]]\nname = "x"\ntenant = "a@b"\ntoken = "{SECRET}"', "tenant"),
        (f'[[token]]\nname = "x"\ntenant = ""\ntoken = "{SECRET}"', "tenant"),
        (f'[[token]]\nname = "x"\nrights = "all"\ntoken = "{SECRET}"', "rights: is not known here"),
        (f'[[token]]\nname = "x"\ntoken = "{SECRET}"\n[[token]]\nname = "y"\ntoken = "{SECRET}"', "same token"),
        (f'[[token]]\nname = "x"\ntoken = "{SECRET}"\n[[token]]\nname = "x"\ntoken = "{SECRET}2"', "two tokens"),
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
    TokenFile(written(tmp_path, f'[[token]]\nname = "x"\ntoken = "{SECRET}"', mode))
    assert ("chmod 600" in caplog.text) is told


def test_the_example_in_the_documentation_is_right(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "access.md").read_text()
    [example] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(TokenFile(written(tmp_path, example)).tokens()) == 2
