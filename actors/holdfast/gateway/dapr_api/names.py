"""Checks the names in the paths of the actor API, with daprd's error messages."""

from __future__ import annotations

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def problem_of_name(name: str) -> str:
    """Returns why this is not a valid name of an actor, a reminder or a timer; empty when it is."""
    if name in (".", ".."):
        return f"name is a path traversal sequence: {_quoted(name)}"
    return _characters("name", name, "#?\0/\\")


def problem_of_method(method: str) -> str:
    """Returns why this is not a valid name of a method; empty when it is."""
    return _characters("method", method, "#?\0")


def _characters(what: str, name: str, forbidden: str) -> str:
    if any(character in forbidden for character in name):
        return f"{what} contains forbidden character: {_quoted(name)}"
    for position, character in enumerate(name):
        if _is_control(character):
            place = len(name[:position].encode())
            return f"{what} contains control character at position {place}: {_quoted(name)}"
    return ""


def _quoted(name: str) -> str:
    """Returns the name as formatted by Go's ``%q``."""
    return '"' + "".join(_escaped(character) for character in name) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if _is_control(character):
        return _ESCAPES.get(character, f"\\x{ord(character):02x}")
    return character


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f"
