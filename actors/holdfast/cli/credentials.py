"""Finds the token of a command (file, environment or command line), and checks which server it may be sent to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from holdfast.cli.options import SETTINGS_FILE, option
from holdfast.errors import SettingsError

# The command line wins over the environment, and the environment over the settings file, as for every option.
_RANKS = {ParameterSource.COMMANDLINE: 0, ParameterSource.ENVIRONMENT: 1, ParameterSource.DEFAULT_MAP: 2}
# A token has at most 1000 characters; a line end may follow.
_MAX_FILE = 1100


def token_option(function: Any) -> Any:
    """Adds the option ``--token`` to a command that calls a server."""
    return option("--token", help="The server's token, if it needs one; safer in HOLDFAST_TOKEN or --token-file.")(
        function
    )


def token_file_option(function: Any) -> Any:
    """Adds the option ``--token-file``."""
    return option(
        "--token-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File with the token. A --token is visible to other users of this machine in the process list.",
    )(function)


def given_token(token: str | None, token_file: Path | None) -> str | None:
    """Returns the token of the running command. Raises SettingsError when two are given, or the file has none."""
    if token_file is None or token is None:
        return token if token_file is None else _read(token_file)
    ranks = _rank("token"), _rank("token_file")
    if ranks[0] == ranks[1]:
        raise SettingsError("Both a token and a token file are given: set --token or --token-file, not both.")
    return token if ranks[0] < ranks[1] else _read(token_file)


def token_for(url: str, token: str | None, token_file: Path | None) -> str | None:
    """Returns the token to send to this server.

    Raises SettingsError when the URL comes from the settings file in the working directory but the token does not: the
    file may come from an archive or a repository the user has not read, and must not direct the token to its server.
    """
    chosen = given_token(token, token_file)
    if chosen is None or _source("url") is not ParameterSource.DEFAULT_MAP:
        return chosen
    from_file = token_file is not None and (token is None or _rank("token_file") < _rank("token"))
    name = "token_file" if from_file else "token"
    if _source(name) is ParameterSource.ENVIRONMENT:
        variable = "HOLDFAST_TOKEN" if name == "token" else "HOLDFAST_TOKEN_FILE"
        raise SettingsError(
            f"The token of {variable} is not sent to {url}, which only {SETTINGS_FILE} in the working directory names. "
            "If the token is meant for that server, name the server with --url or HOLDFAST_URL."
        )
    if name == "token_file" and _source(name) is ParameterSource.DEFAULT_MAP and not _is_here(token_file):
        raise SettingsError(
            f"{SETTINGS_FILE} in the working directory names a server and a token file outside this directory, whose "
            "content would be sent to that server. If that is intended, name either with --token-file or --url."
        )
    return chosen


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_FILE)
    except OSError as error:
        raise SettingsError(f"The token file {file} cannot be read: {error.strerror}.") from error
    try:
        token = content.decode("ascii").rstrip("\r\n")
    except UnicodeDecodeError:
        token = ""
    if not token:
        raise SettingsError(f"There is no token in {file}: it must have one line of visible ASCII characters.")
    return token


def _source(name: str) -> ParameterSource | None:
    return click.get_current_context().get_parameter_source(name)


def _rank(name: str) -> int:
    source = _source(name)
    return _RANKS.get(source, len(_RANKS)) if source is not None else len(_RANKS)


def _is_here(file: Path | None) -> bool:
    return file is not None and file.resolve().is_relative_to(Path.cwd().resolve())
