"""The names that ``import holdfast`` gives, and the modules that it does not load."""

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


def test_dir_shows_the_public_names() -> None:
    assert dir(holdfast) == sorted(holdfast.__all__)


# Imports fail for all packages but Holdfast and its dependencies without extras.
CLIENT_ONLY = """
import importlib.metadata as metadata, re, sys

def installed_with(name, seen):
    if name in seen:
        return
    seen.add(name)
    for line in metadata.requires(name) or []:
        if "extra ==" not in line:
            required = re.match(r"[A-Za-z0-9._-]+", line)[0]
            try:
                installed_with(required, seen)
            except metadata.PackageNotFoundError:
                pass  # for another platform or version of Python

allowed = set()
for required in metadata.requires("holdfast"):
    if "extra ==" not in required:
        installed_with(re.match(r"[A-Za-z0-9._-]+", required)[0], allowed)
normal = {re.sub(r"[-_.]+", "-", name).lower() for name in allowed}

class Refusing:
    owners = metadata.packages_distributions()

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        owners = {re.sub(r"[-_.]+", "-", owner).lower() for owner in self.owners.get(top, ())} - {"holdfast"}
        if owners and not owners & normal:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Refusing())
"""


def client_only(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CLIENT_ONLY + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_client_alone_needs_aiohttp_and_pydantic() -> None:
    code = """
import asyncio
from holdfast import App, Client, Retry, SyncClient
from holdfast.client.api.encoding import encode
from pydantic import BaseModel
import holdfast.testing

class Order(BaseModel):
    id: int

app = App()

@app.orchestration
async def checkout(ctx, order: Order) -> str: ...

async def main():
    async with Client("http://127.0.0.1:9") as client:
        queue = client.queue("orders")
    with SyncClient("http://127.0.0.1:9") as client:
        queue = client.queue("orders")
    print(encode({"a": [1, 2**70, "ü"]}, "An item").decode(), "orjson" in sys.modules)

asyncio.run(main())
"""
    run = client_only(code)
    assert (run.stdout, run.stderr) == ('{"a":[1,1180591620717411303424,"ü"]} False\n', "")


def test_the_command_line_names_the_extra_that_it_needs() -> None:
    run = client_only("sys.argv = ['holdfast', 'serve']; from holdfast.__main__ import main; main()")
    assert run.returncode == 1
    assert "pip install 'holdfast[server]'" in run.stderr
    assert "Traceback" not in run.stderr
