"""An app of each test's own, and both ways in which an instance lives on between two messages."""

from __future__ import annotations

import pytest

from holdfast import App


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture(params=[False, True], ids=["kept", "rebuilt"])
def cold(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
