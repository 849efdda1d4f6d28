"""Each shipped component is one actor state store, and is filled in without touching the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from holdfast.local.components import STORES, Store, component_file, write_component

if TYPE_CHECKING:
    from pathlib import Path


def settings(component: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in component["spec"]["metadata"]}


@pytest.mark.parametrize("store", STORES)
def test_a_folder_holds_one_actor_state_store(store: Store) -> None:
    folder = component_file(store).parent
    assert [file.name for file in folder.iterdir()] == ["statestore.yaml"]
    component = yaml.safe_load(component_file(store).read_text())
    kind, _, version = store.partition("-")
    assert component["spec"]["type"] == f"state.{kind}"
    assert component["spec"]["version"] == (version or "v1")
    assert settings(component)["actorStateStore"] == "true"


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("connection", ["postgresql://u:p%20w@h/d?x=1", '/a folder/with "quotes" \\1 and: #.db'])
def test_only_the_connection_is_filled_in(store: Store, connection: str, tmp_path: Path) -> None:
    written = write_component(store, tmp_path / "new", connection=connection)
    shipped, filled = (yaml.safe_load(file.read_text()) for file in (component_file(store), written))
    assert settings(filled) == {**settings(shipped), "connectionString": connection}
    assert {**filled, "spec": None} == {**shipped, "spec": None}


def test_what_may_hold_a_password_is_not_for_others(tmp_path: Path) -> None:
    written = write_component("postgresql-v2", tmp_path, connection="postgresql://u:secret@h/d")
    assert written.stat().st_mode & 0o077 == 0
