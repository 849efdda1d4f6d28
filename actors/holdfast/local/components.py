"""Writes the Dapr components of `components/` for a given database."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal, get_args

from holdfast.errors import ComponentMissing

Store = Literal["sqlite", "postgresql-v2", "postgresql-v1"]

STORES: tuple[Store, ...] = get_args(Store)

# An installed package has them next to this module, a checkout in its root.
_PLACES = (Path(__file__).with_name("components"), Path(__file__).parents[3] / "components")


def write_component(store: Store, folder: Path, *, connection: str) -> Path:
    """Writes the component of `store` for the database `connection` into `folder`, and returns the file.

    `connection` is a URL for PostgreSQL, or the path of the database file for SQLite. `folder` is meant for daprd's
    `--resources-path`: it must have only one actor state store.
    """
    text, replaced = re.subn(
        r"(- name: connectionString\n +value: ).*",
        lambda match: match[1] + json.dumps(connection),
        component_file(store).read_text(),
    )
    if replaced != 1:
        raise ComponentMissing(f"The component for {store} has no connectionString to fill in.")
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "statestore.yaml"
    # It may have a password.
    written.touch(mode=0o600)
    written.write_text(text)
    return written


def component_file(store: Store) -> Path:
    """Returns the file of the shipped component."""
    for place in _PLACES:
        if (file := place / store / "statestore.yaml").is_file():
            return file
    raise ComponentMissing(f"The component for {store} is not part of this installation. Install Holdfast again.")
