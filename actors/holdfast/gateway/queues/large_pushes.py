"""Parses pushes of many MiB one item at a time, as a single parser call would block the event loop.

Other requests are served between the items. The result is the internal form of a push: options as values, payloads as
the JSON text to be stored, which is not parsed again on its way to the queue's turn.
"""

from __future__ import annotations

import re
from typing import Any

from holdfast.errors import InvalidRequest, TooLarge
from holdfast.gateway.middleware.body_limits import MAX_CALL
from holdfast.pushpop.api.large_pushes import ENTRIES
from holdfast.pushpop.api.requests import MAX_PUSH, PushItem
from holdfast.runtime.serialization import check_lossless, check_number_of_containers, dump, load
from holdfast.runtime.yielding import Pause, Piecework, let_others_run

# The limit for the internal form, where a quotation mark in a payload takes up to four characters.
_MAX_WRITTEN = 24 * 1024 * 1024

_SPACE = rb"[ \t\n\r]*"
_HEAD = re.compile(rb'%b\{%b"items"%b:%b\[%b(?=[^\]])' % (_SPACE, _SPACE, _SPACE, _SPACE, _SPACE))
_BETWEEN = re.compile(rb"%b,%b" % (_SPACE, _SPACE))
_TAIL = re.compile(rb"%b\]%b\}%b\Z" % (_SPACE, _SPACE, _SPACE))
# Matches up to the next brace outside strings, skipping objects without nested ones. The quantifiers are possessive, so
# there is no backtracking.
_PLAIN = rb'[^"{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}]*+)*+'
_BRACE = re.compile(rb"%b(?:\{%b\}%b)*+[{}]" % (_PLAIN, _PLAIN, _PLAIN), re.DOTALL)
_OPEN = ord("{")
# Other tasks run after this many braces.
_BRACES = 10_000


async def read_push(body: bytes, pause: Pause = let_others_run) -> tuple[bytes, dict[str, Any]]:
    """Parses a body of the form ``{"items": [...]}``. Returns the internal form of the push, as bytes and as values.

    ``pause`` is awaited between the steps. Raises InvalidRequest and TooLarge.
    """
    head = _HEAD.match(body)
    if head is None:
        raise TooLarge(
            f'A push of more than {MAX_CALL // 1024} KiB must be {{"items": [...]}}, with at least one item and no '
            "other key. An item may have 1 MiB at most."
        )
    place = head.end()
    entries: list[dict[str, Any]] = []
    size = 0
    work = Piecework()
    while True:
        number = len(entries)
        if number == MAX_PUSH:
            raise InvalidRequest(f"items: List should have at most {MAX_PUSH} items")
        end = await _end_of_item(body, place, number, pause)
        value = _value(body[place:end], number)
        if work.is_due(end - place):
            await pause()
        entry, written_size = _entry(value, number)
        del value
        entries.append(entry)
        size += written_size
        if size > _MAX_WRITTEN:
            raise TooLarge("These items together have too many quotation marks and backslashes: push fewer at once.")
        if work.is_due(end - place):
            await pause()
        following = _BETWEEN.match(body, end)
        if following is None:
            break
        place = following.end()
    if not _TAIL.match(body, end):
        raise InvalidRequest(f"The body must be a list of items and nothing else: check the text after items.{number}.")
    await pause()
    data = {ENTRIES: entries}
    written = dump(data)
    await pause()
    return written, data


async def _end_of_item(body: bytes, place: int, number: int, pause: Pause) -> int:
    """Returns the end of the object that begins at ``place``, without parsing it."""
    if body[place : place + 1] != b"{":
        raise InvalidRequest(f"items.{number}: Input should be an object")
    limit = place + MAX_CALL
    # The opening brace, so that the pattern does not skip an item without nested objects.
    place += 1
    depth = 1
    braces = 0
    while found := _BRACE.match(body, place, limit):
        place = found.end()
        depth += 1 if body[place - 1] == _OPEN else -1
        if depth == 0:
            return place
        braces += 1
        if braces % _BRACES == 0:
            await pause()
    if limit < len(body):
        raise TooLarge(f"items.{number}: An item may have 1 MiB at most.")
    raise InvalidRequest(f"items.{number}: is not JSON: it does not end.")


def _value(text: bytes, number: int) -> dict[str, Any]:
    try:
        check_number_of_containers(text)
        value: dict[str, Any] = load(text)
    except TooLarge as error:
        raise TooLarge(f"items.{number}: {error}") from None
    except ValueError as error:
        raise InvalidRequest(f"items.{number}: is not JSON: {error}.") from None
    return value


def _entry(value: dict[str, Any], number: int) -> tuple[dict[str, Any], int]:
    """Returns the internal form of an item and its approximate size."""
    try:
        check_lossless([[value]])
        text = PushItem.parse(value).text()
        if isinstance(value["item"], str):
            return value, len(text)
        return {key: option for key, option in value.items() if key != "item"} | {"text": text}, _written_size(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"items.{number}.{error}") from None
    except TooLarge as error:
        raise TooLarge(f"items.{number}: {error}") from None


def _written_size(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode())
    return size + text.count('"') + text.count("\\")
