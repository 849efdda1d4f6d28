"""No word of a password is in what is shown of an address, or in a message about it."""

from __future__ import annotations

from urllib.parse import unquote

import psycopg.conninfo
import pytest

from holdfast.spark.source.options import Options
from holdfast.state_store.redaction import without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/shop", "postgresql://db/shop"),
        ("postgresql://ann@db/shop", "postgresql://ann@db/shop"),
        ("postgresql://ann:s3cret@db:5433/shop", "postgresql://ann@db:5433/shop"),
        ("postgresql://ann:s3cret@/shop?host=/run", "postgresql://ann@/shop"),
        ("postgresql://ann:s3cret@one:1,two:2/shop?target_session_attrs=any", "postgresql://ann@one:1,two:2/shop"),
        (
            "postgresql://ann:s3cret@[::1]:5432,[fe80::1%25eth0]/shop",
            "postgresql://ann@[::1]:5432,[fe80::1%25eth0]/shop",
        ),
        ("postgresql://[::1]/shop", "postgresql://[::1]/shop"),
        ("postgresql://db/shop?user=ann@corp&password=s3cret", "postgresql://db/shop"),
        ("postgresql://db/shop?password=a@s3cret", "postgresql://db/shop"),
        ("postgresql://ann@db/shop?sslpassword=s3cret@x", "postgresql://ann@db/shop"),
        ("postgresql://ann:a@s3cret@db/shop", "postgresql://ann@db/shop"),
        # libpq may read these as a user and a host, or not at all.
        ("postgresql://ann:s3?cret@db/shop", "postgresql://*****"),
        ("postgresql://ann:s3/cret@db/shop", "postgresql://*****"),
        ("postgresql://db?password=a@s3cret", "postgresql://*****"),
        ("postgresql://ann:s3cret/shop", "postgresql://*****"),
        ("postgresql://ann@db/shop&password=s3cret", "postgresql://*****"),
        ("postgresql://ann@db/shop;password=s3cret", "postgresql://*****"),
        ("postgresql://one,ann:s3cret/shop", "postgresql://*****"),
        ("host=db password=s3cret", "*****"),
        ("sqlite:///a/b@c.db?x=1", "sqlite:///a/b@c.db"),
    ],
)
def test_an_address_is_shown_without(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("postgresql://ann:{}@one:1,two:2/shop", "s3cr%40et"),
        ("postgresql://ann:{}@db/shop", "s3cr@et"),
        ("postgresql://ann:{}@db/shop", "s3cr/et"),
        ("postgresql://ann:{}@db/shop", "s3cr?et"),
        ("postgresql://[::1]/shop?password={}", "s3cr%40et"),
        ("postgresql://db/shop?sslmode=require&sslpassword={}", "s3cr@et"),
        ("postgresql://db/shop?ssl%70assword={}&password=other", "s3cr%40et"),
        ("postgres://ann:other@db/shop?password={}", "s3cr@et"),
    ],
)
def test_a_message_is_told_without(url: str, written: str) -> None:
    whole = url.format(written)
    told = Options.read({"url": whole}).without_secrets(f"no {whole}: {written}, {unquote(written)}")
    assert told == "no *****: *****, *****"


def test_a_piece_of_one_that_should_have_been_quoted_is_hidden_too() -> None:
    options = Options.read({"url": "postgresql://ann:hunter/two@db/shop"})
    assert "hunter" not in options.without_secrets('invalid integer value "hunter" for connection option "port"')


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann@db/shop?password:hunter",
        "postgresql://ann@db/shop?password%3Dhunter",
        "postgresql://ann@db/shop?sslmode=require&pass-word:hunter=x",
        "postgresql://ann:hunter/shop",
        "postgresql://ann@db/shop&password=hunter",
        "postgresql://ann@db/shop;password=hunter",
        "postgresql://ann@db/shop?scram_client_key=hunter",
    ],
)
def test_one_that_is_mistyped_is_hidden_too(url: str) -> None:
    try:
        psycopg.conninfo.conninfo_to_dict(url)
        told = f'invalid port "hunter" in {url}, database "{url.rpartition("/")[2]}" does not exist'
    except psycopg.Error as error:
        told = str(error)
    assert "hunter" not in Options.read({"url": url}).without_secrets(told)


def test_a_file_has_none() -> None:
    options = Options.read({"url": "sqlite:///a:b@c.db"})
    assert options.without_secrets("there is no file /a:b@c.db") == "there is no file /a:b@c.db"
