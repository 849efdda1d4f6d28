"""The tags of an instance: short texts under short keys, by which instances are found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from holdfast.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TAGS = 20
MAX_KEY = 64
MAX_VALUE = 255

Tags: TypeAlias = dict[str, str]

_KEY = re.compile(r"[A-Za-z0-9\-_.]{1,64}\Z")


def check_tags(tags: Mapping[str, str]) -> Tags:
    """Returns tags, if valid. Raises InvalidRequest, which names the tag, for anything else."""
    if len(tags) > MAX_TAGS:
        raise InvalidRequest(f"tags: an instance has {MAX_TAGS} tags at most; these are {len(tags)}.")
    for key, value in tags.items():
        check_key(key)
        _check_value(key, value)
    return dict(tags)


def check_changes(tags: Mapping[str, str | None], changes: Mapping[str, str | None]) -> dict[str, str | None]:
    """Returns changes of ``tags``, if they and the changed tags are valid; None as a value removes a tag.

    Raises InvalidRequest otherwise.
    """
    for key, value in changes.items():
        check_key(key)
        if value is not None:
            _check_value(key, value)
    changed = dict(changes)
    left = {key for key, value in {**tags, **changed}.items() if value is not None}
    if len(left) > MAX_TAGS:
        raise InvalidRequest(f"tags: an instance has {MAX_TAGS} tags at most; these would be {len(left)}.")
    return changed


def merged(tags: Tags, changes: Mapping[str, str | None]) -> Tags:
    """Returns the tags after these changes."""
    return {key: value for key, value in {**tags, **changes}.items() if value is not None}


def check_key(key: str) -> str:
    """Returns the key of a tag, if valid."""
    if not (isinstance(key, str) and _KEY.match(key)):
        raise InvalidRequest(f"tags: a key has 1 to {MAX_KEY} characters of letters, digits and '-_.'.")
    return key


def _check_value(key: str, value: str) -> None:
    if not isinstance(value, str):
        raise InvalidRequest(f"tags.{key}: the value has to be a string.")
    if len(value) > MAX_VALUE:
        raise InvalidRequest(f"tags.{key}: the value has {MAX_VALUE} characters at most; this one has {len(value)}.")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidRequest(f"tags.{key}: U+0000 and lone surrogates cannot be stored.")
