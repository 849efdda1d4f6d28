"""The two sides that are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stacks.base import Stack
    from tests.support.stacks.served import ServedStack


@pytest.fixture
def sides(start_stack: Callable[[str], Stack]) -> tuple[ServedStack, ServedStack]:
    """daprd, and the embedded host."""
    return start_stack("daprd-sqlite"), start_stack("embedded")  # type: ignore[return-value]
