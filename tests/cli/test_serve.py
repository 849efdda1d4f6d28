"""``holdfast serve``: what it refuses in one sentence, and which host it takes by itself."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.serve import load_app
from holdfast.errors import SettingsError
from holdfast.server import listen

_PORTS = ("DAPR_HTTP_PORT", "DAPR_GRPC_PORT")


@pytest.mark.parametrize("name", [":app", "", ".relative:app", "shop..orders", "shop."])
def test_what_names_no_module_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="does not name a module"):
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


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b'Content-Length: 100\r\n\r\n{"ite', id="half a body"),
        pytest.param(b'Transfer-Encoding: chunked\r\n\r\n6\r\n{"ite', id="half a chunk"),
        pytest.param(b"Content-Len", id="half a head"),
    ],
)
def test_a_stop_does_not_wait_for_the_rest_of_a_request(tmp_path: Path, sent: bytes) -> None:
    """The time-out of a body is 30 seconds: a stop that waited for it would take as long."""
    with subprocess.Popen(
        [Path(sys.executable).with_name("holdfast"), "serve", "--host", "embedded", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://([\d.]+):(\d+)", server.stdout.readline())
            assert address is not None
            with (
                socket.create_connection((address[1], int(address[2])), timeout=10) as slow,
                socket.create_connection((address[1], int(address[2])), timeout=10) as quick,
            ):
                slow.sendall(b"POST /queue/q1/push HTTP/1.1\r\nHost: localhost\r\n" + sent)
                # The server reads what came first before it answers this one.
                quick.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert quick.recv(65_536).startswith(b"HTTP/1.1 200")
                server.send_signal(signal.SIGTERM)
                assert server.wait(10) == 0
                answer = slow.recv(65_536)
            if sent.endswith(b"ite"):
                assert answer.startswith(b"HTTP/1.1 503")
                assert b'"error_code":"UNAVAILABLE"' in answer.replace(b" ", b"")
        finally:
            server.kill()
