"""Options that are also environment variables and keys of ``holdfast.toml``."""

from __future__ import annotations

import re
import tomllib
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS_FILE = Path("holdfast.toml")
#: The one key of the file that is not an option: a table with one table for each tenant.
TENANTS = "tenants"
_PREFIX = "HOLDFAST_"
# Kubernetes sets HOLDFAST_PORT=tcp://10.0.0.1:8080 in every pod when a Service is called holdfast.
_SERVICE_LINK = re.compile(r"(?:tcp|udp|sctp)://", re.IGNORECASE)


class _Option(click.Option):
    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        value = super().resolve_envvar_value(ctx)
        if value is not None and isinstance(self.type, click.types.IntParamType) and _SERVICE_LINK.match(value):
            return None
        return value

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        value = super().process_value(ctx, value)
        # Click's ranges let nan through, since it is neither too small nor too large.
        if isinstance(value, float) and not isfinite(value):
            raise click.BadParameter("has to be a finite number.", ctx=ctx, param=self)
        return value


def option(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    """Declares ``--some-thing``, with ``HOLDFAST_SOME_THING`` and ``some-thing = …`` in ``holdfast.toml``.

    With another ``envvar``, because the option's name means something else in other commands, the key of the file
    follows that variable. The address of a Kubernetes Service in the variable of a number, as in
    ``HOLDFAST_PORT=tcp://…``, is not a value.
    """
    long = next(name for name in names if name.startswith("--")).partition("/")[0]
    variable = _PREFIX + long.removeprefix("--").replace("-", "_").upper()
    shown: dict[str, Any] = {"cls": _Option, "envvar": variable, "show_envvar": True, "show_default": True}
    return click.option(*names, **(shown | attributes))


def from_settings_file(context: click.Context, path: Path = SETTINGS_FILE) -> dict[str, Any]:
    """Returns the file's values as click's defaults, for each command with such an option, in nested groups too."""
    assert isinstance(context.command, click.Group)
    values = _read(path)
    values.pop(TENANTS, None)
    if not values:
        return {}
    # Numbers as text, as in an environment variable: click would turn 1.5 into 1.
    by_name = {
        key.replace("_", "-"): value if isinstance(value, bool | list | dict) else str(value)
        for key, value in values.items()
    }
    known: set[str] = set()
    defaults = _defaults(context, context.command, by_name, known)
    unknown = sorted(key for key in values if key.replace("_", "-") not in known)
    if unknown:
        raise SettingsError(f"{path} has an unknown key: {unknown[0]}. 'holdfast COMMAND --help' lists the options.")
    return defaults


def tenants_table(path: Path = SETTINGS_FILE) -> dict[str, Any]:
    """Returns the file's settings of tenants, by tenant name."""
    table = _read(path).get(TENANTS, {})
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: {TENANTS} must be a table of tables, as in [{TENANTS}.acme].")
    return table


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


def _defaults(context: click.Context, group: click.Group, values: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """Returns the values by command and parameter name, as click takes them; adds the options' names to ``known``."""
    defaults: dict[Any, Any] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        options = {
            key: param
            for param in command.params
            if isinstance(param, click.Option) and param.name
            for key in _keys(param)
        }
        known.update(options)
        defaults[name] = {
            options[key].name: _fitting(options[key], value) for key, value in values.items() if key in options
        }
        if isinstance(command, click.Group):
            defaults[name] |= _defaults(context, command, values, known)
    return defaults


def _fitting(param: click.Option, value: Any) -> Any:
    """Returns the value as click takes it: of a string for a repeatable option, click would take each letter."""
    return [value] if param.multiple and isinstance(value, str) else value


def _keys(param: click.Option) -> list[str]:
    """Returns the option's keys in the file."""
    if isinstance(param.envvar, str):
        return [param.envvar.removeprefix(_PREFIX).replace("_", "-").lower()]
    return [long.removeprefix("--") for long in param.opts if long.startswith("--")]


no_tracebacks_option = option(
    "--no-tracebacks",
    is_flag=True,
    help="Keep no tracebacks of failed activities and orchestrations.",
)
