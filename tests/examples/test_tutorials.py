"""Follows the tutorials: runs their commands in an empty folder and compares the output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.examples.tutorial import Tutorial, blocks
from tests.support.checkout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGES = {"queue": "tutorials", "orchestration": "tutorials", "dapr": "local-stack", "spark": "tutorials"}


def test_every_tutorial_is_followed() -> None:
    assert {page.stem for page in (ROOT / "docs" / "tutorials").glob("*.md")} == set(PAGES)


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.xdist_group(group)) for page, group in PAGES.items()]
)
async def test_the_tutorial(page: str, tmp_path: Path) -> None:
    assert {block.language for block in blocks(page)} <= {"python", "sh", "text"}
    await Tutorial(page, tmp_path).follow()
