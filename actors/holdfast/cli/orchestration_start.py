"""The options of ``holdfast orchestration start``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_tags(given: Sequence[str]) -> dict[str, str] | None:
    """Returns the tags given as ``KEY=VALUE``, split at the first equals sign."""
    tags: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--tag {text}: give it as KEY=VALUE.")
        if key in tags:
            raise click.UsageError(f"--tag {key}: given twice.")
        tags[key] = value
    return tags or None
