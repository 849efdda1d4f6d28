"""What ``import holdfast`` gives, and what it does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast
from holdfast.client import Client
from holdfast.runtime.unit_of_work import DurableActor


def test_the_package_has_what_authors_and_callers_need() -> None:
    assert holdfast.Client is Client
    assert holdfast.DurableActor is DurableActor
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = holdfast.Nonsense


def test_importing_it_loads_no_heavy_library() -> None:
    code = "import sys, holdfast; print({'dapr', 'grpc', 'aiohttp', 'fastapi', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"
