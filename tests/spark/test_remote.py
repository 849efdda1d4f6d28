"""Of an address of Spark Connect is shown which server it is: the rest may be a token, or was meant to be one."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from holdfast.spark.session import _message_of, _shown


@pytest.mark.parametrize(
    "remote",
    [
        "sc://db.example:15002/;token=s3cret",
        "sc://db.example:15002/;use_ssl=true;token=s3cret;",
        "sc://db.example:15002/;token=s3%63ret",
        "sc://db.example:15002;token=s3cret",
        "sc://db.example:15002?token=s3cret",
        "sc://db.example:15002/token=s3cret",
        "sc://s3cret@db.example:15002",
        "sc://bob:s3cret@db.example:15002/;user_id=bob",
    ],
)
def test_a_token_is_not_shown(remote: str) -> None:
    assert _shown(remote) == "sc://db.example:15002"
    told = _message_of(ValueError(f"It is true: {unquote(remote)} is refused, {remote} as well.\nAt length."), remote)
    assert "s3cret" not in told
    assert "s3%63ret" not in told
    assert told.startswith("It is true: ")


def test_what_has_no_parameters_is_told_as_it_is() -> None:
    assert _message_of(ValueError("The port is wrong."), "sc://db.example:15002/;") == "The port is wrong."
