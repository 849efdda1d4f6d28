"""Options that are also environment variables and keys of ``holdfast.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS_FILE = Path("holdfast.toml")


def option(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    """``--some-thing`` is also ``HOLDFAST_SOME_THING`` and ``some-thing = …`` in ``holdfast.toml``."""
    long = next(name for name in names if name.startswith("--")).partition("/")[0]
    variable = "HOLDFAST_" + long.removeprefix("--").replace("-", "_").upper()
    shown: dict[str, Any] = {"envvar": variable, "show_envvar": True, "show_default": True}
    return click.option(*names, **(shown | attributes))


def from_settings_file(group: click.Group, path: Path = SETTINGS_FILE) -> dict[str, dict[str, Any]]:
    """The file's values as click's defaults, for every command that has such an option."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    defaults: dict[str, dict[str, Any]] = {}
    known: set[str] = set()
    for command_name, command in group.commands.items():
        mine = {param.name for param in command.params if isinstance(param, click.Option) and param.name}
        known |= mine
        defaults[command_name] = {
            name: value for key, value in values.items() if (name := key.replace("-", "_")) in mine
        }
    unknown = sorted(key for key in values if key.replace("-", "_") not in known)
    if unknown:
        raise SettingsError(
            f"{path} has a key that no option goes by: {unknown[0]}. 'holdfast serve --help' lists them."
        )
    return defaults
