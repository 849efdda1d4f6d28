"""The command line, from click's definitions."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

from generators.tables import code, prose, table
from holdfast.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def page() -> str:
    return "\n".join(_command(name, command, []) for name, command in _commands(cli))


def _command(name: str, command: click.Command, inherited: Sequence[click.Option]) -> str:
    """Returns the section of a command, and of those below it; ``inherited`` are the options of a group."""
    parts = [f"{'#' * (1 + name.count(' '))} `{name}`", _help(command)]
    if isinstance(command, click.Group):
        shared = _shared(command)
        if shared:
            parts += [f"Options of every command of `{name}`:", options(shared)]
        return "\n\n".join(parts) + "\n\n" + "\n".join(_command(*one, shared) for one in _commands(command, name))
    usage = " ".join([name, *command.collect_usage_pieces(click.Context(command))])
    own = [one for one in option_list(command) if not any(_same(one, other) for other in inherited)]
    return "\n\n".join([*parts, f"```text\n{usage}\n```", options(own)])


def _commands(group: click.Group, prefix: str = "holdfast") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{prefix} {name}", command


def _help(command: click.Command) -> str:
    # Lines of a paragraph after \b are kept by click; here they are a block.
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(command.help or command.short_help or ""))
    return "\n\n".join(
        f"```text\n{one.removeprefix(chr(8)).strip(chr(10))}\n```" if one.startswith("\b") else prose(one)
        for one in paragraphs
    )


def option_list(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


def _shared(group: click.Group) -> list[click.Option]:
    """Returns the options that every command below the group has."""
    every = [option_list(command) for _, command in _leaves(group)]
    return [one for one in every[0] if all(any(_same(one, other) for other in rest) for rest in every[1:])]


def _leaves(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in _commands(group, prefix):
        if isinstance(command, click.Group):
            yield from _leaves(command, name)
        else:
            yield name, command


def _same(one: click.Option, other: click.Option) -> bool:
    return (one.opts, one.help, one.envvar, default(one)) == (other.opts, other.help, other.envvar, default(other))


def options(found: Sequence[click.Option]) -> str:
    """Returns the table of these options."""
    rows = [(_names(one), meaning(one), code(default(one)), code(str(one.envvar or ""))) for one in found]
    return table(("option", "meaning", "default", "variable"), rows)


def _names(option: click.Option) -> str:
    # The range is with the meaning.
    metavar = "" if option.is_flag else f" {option.make_metavar(click.Context(cli))}".removesuffix(" RANGE")
    return code(f"{', '.join(option.opts)}{metavar}")


def meaning(option: click.Option) -> str:
    """Returns the help with the range of numbers, if there is one."""
    limits = option.get_help_extra(click.Context(cli)).get("range")
    return prose(option.help or "") + (f" Range: {code(limits)}." if limits else "")


def default(option: click.Option) -> str:
    """Returns the default as ``--help`` shows it, or nothing."""
    if isinstance(option.show_default, str):
        return option.show_default
    return str(option.get_help_extra(click.Context(cli)).get("default", ""))
