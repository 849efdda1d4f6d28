"""``holdfast serve``: what it refuses in one sentence, and which host it takes by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.serve import load_app
from holdfast.errors import SettingsError
from holdfast.gateway.server import listen

_PORTS = ("DAPR_HTTP_PORT", "DAPR_GRPC_PORT")


@pytest.mark.parametrize("name", [":app", "", ".relative:app", "shop..orders", "shop."])
def test_what_names_no_module_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="names no module"):
        load_app(name)


def test_an_address_nobody_knows_is_refused_in_the_resolvers_words() -> None:
    with pytest.raises(SettingsError) as refused:
        listen("nosuch.invalid", 0)
    assert str(refused.value).startswith("Cannot listen on nosuch.invalid port 0: ")
    assert "Unknown error" not in str(refused.value)


@pytest.mark.parametrize(
    ("variables", "host"), [((), "embedded"), (("DAPR_HTTP_PORT",), "embedded"), (_PORTS, "dapr")], ids=str
)
def test_the_dapr_host_is_chosen_where_both_ports_of_a_sidecar_are_given(
    tmp_path: Path, variables: tuple[str, ...], host: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in _PORTS}
    with subprocess.Popen(
        [Path(sys.executable).with_name("holdfast"), "serve", "--port", "0"],
        cwd=tmp_path,
        env=environment | dict.fromkeys(variables, "1"),
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().endswith(f"({host})\n")
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()
