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
#: A key of the file that is no option's: a table of tables, one for each tenant.
TENANTS = "tenants"
_PREFIX = "HOLDFAST_"


def option(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    """``--some-thing`` is also ``HOLDFAST_SOME_THING`` and ``some-thing = …`` in ``holdfast.toml``.

    One that is given another variable, because its name means something else elsewhere, has that one's name there too.
    """
    long = next(name for name in names if name.startswith("--")).partition("/")[0]
    variable = _PREFIX + long.removeprefix("--").replace("-", "_").upper()
    shown: dict[str, Any] = {"envvar": variable, "show_envvar": True, "show_default": True}
    return click.option(*names, **(shown | attributes))


def from_settings_file(context: click.Context, path: Path = SETTINGS_FILE) -> dict[str, Any]:
    """The file's values as click's defaults, for every command that has such an option, in groups of groups too."""
    assert isinstance(context.command, click.Group)
    values = _read(path)
    values.pop(TENANTS, None)
    if not values:
        return {}
    # As text, as an environment variable has it: click would make 1 of 1.5, and "true" of true.
    by_name = {
        key.replace("_", "-"): value if isinstance(value, bool | list | dict) else str(value)
        for key, value in values.items()
    }
    known: set[str] = set()
    defaults = _defaults(context, context.command, by_name, known)
    unknown = sorted(key for key in values if key.replace("_", "-") not in known)
    if unknown:
        raise SettingsError(
            f"{path} has a key that no option goes by: {unknown[0]}. 'holdfast COMMAND --help' lists them."
        )
    return defaults


def tenants_table(path: Path = SETTINGS_FILE) -> dict[str, Any]:
    """What the file says of tenants, by their names."""
    table = _read(path).get(TENANTS, {})
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: {TENANTS} is a table of tables, as in [{TENANTS}.acme].")
    return table


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


def _defaults(context: click.Context, group: click.Group, values: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """As click wants them: by command, and by the name of the parameter; ``known`` gathers the options' names."""
    defaults: dict[str, Any] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        mine = {
            key: param.name
            for param in command.params
            if isinstance(param, click.Option) and param.name
            for key in _keys(param)
        }
        known.update(mine)
        defaults[name] = {mine[key]: value for key, value in values.items() if key in mine}
        if isinstance(command, click.Group):
            defaults[name] |= _defaults(context, command, values, known)
    return defaults


def _keys(param: click.Option) -> list[str]:
    """What it goes by in the file."""
    if isinstance(param.envvar, str):
        return [param.envvar.removeprefix(_PREFIX).replace("_", "-").lower()]
    return [long.removeprefix("--") for long in param.opts if long.startswith("--")]
