"""HTTPS: the server, the client, the command line and a worker, with a certificate of an authority of our own."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from holdfast.client import Client
from holdfast.errors import ConnectionFailed, SettingsError
from holdfast.gateway.tls import TlsFiles
from holdfast.local import ChildProcess
from holdfast.local.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = "a-token-0123456789abcdef"
APP = """
import holdfast

app = holdfast.App()

@app.activity
def double(number: int) -> int:
    return 2 * number

@app.orchestration
async def doubled(ctx, number: int) -> int:
    return await ctx.call(double, number)
"""

pytestmark = pytest.mark.xdist_group("tls")


class Authority:
    """A certificate authority, and a server's certificate of it."""

    def __init__(self, folder: Path) -> None:
        self.authority = folder / "ca.pem"
        self.certificate, self.key, self.both = folder / "cert.pem", folder / "key.pem", folder / "both.pem"
        ca = trustme.CA()
        issued = ca.issue_cert("127.0.0.1", "localhost")
        ca.cert_pem.write_to_path(self.authority)
        issued.private_key_pem.write_to_path(self.key)
        for blob in issued.cert_chain_pems:
            blob.write_to_path(self.certificate, append=True)
        issued.private_key_and_cert_chain_pem.write_to_path(self.both)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
async def url(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("tls")
    (folder / "doubling.py").write_text(APP)
    (folder / "token").write_text(TOKEN)
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    command = [
        *(Path(sys.executable).with_name("holdfast"), "serve", "doubling:app", "--no-worker", "--port", str(port)),
        *("--data", str(folder / "data"), "--token-file", str(folder / "token")),
        *("--tls-cert", str(authority.certificate), "--tls-key", str(authority.key)),
    ]
    server = ChildProcess("server", command, log=folder / "server.log", folder=folder)
    await server.start()
    try:
        context = ssl.create_default_context(cafile=str(authority.authority))

        async def is_ready() -> bool:
            try:
                async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz", ssl=context) as answer:
                    return answer.status == 200
            except aiohttp.ClientConnectorError:
                return False

        await eventually(is_ready, what="the server is ready", within=60)
        assert f"Holdfast on {url} (embedded)" in server.logged()
        yield url
    finally:
        await server.terminate()


async def test_the_client_calls_a_server_whose_authority_it_knows(
    url: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.authority))
    async with Client(url, token=TOKEN) as client:
        await client.queue("orders").push({"id": 1})
        assert (await client.queue("orders").stats()).count == 1


async def test_the_client_does_not_call_a_server_whose_authority_it_does_not_know(url: str) -> None:
    async with Client(url, token=TOKEN, retries=0) as client:
        with pytest.raises(ConnectionFailed, match="certificate"):
            await client.queue("orders").push({"id": 1})


async def test_it_does_not_speak_without_tls(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{url.replace('https', 'http')}/healthz")


async def test_commands_and_workers_call_it(
    url: str, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "doubling.py").write_text(APP)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.authority))
    variables = {"SSL_CERT_FILE": str(authority.authority), "HOLDFAST_TOKEN": TOKEN, "HOLDFAST_URL": url}
    holdfast = str(Path(sys.executable).with_name("holdfast"))
    worker = ChildProcess(
        "worker",
        [holdfast, "worker", "doubling:app"],
        log=tmp_path / "worker.log",
        folder=tmp_path,
        environment=variables,
    )
    await worker.start()
    try:
        start = [holdfast, "orchestration", "start", "doubled", "21", "--within", "60"]
        asked = ChildProcess("start", start, log=tmp_path / "start.log", folder=tmp_path, environment=variables)
        await asked.start()
        assert await asked.wait() == 0, asked.logged()
        assert asked.logged().strip() == "42"
    finally:
        await worker.terminate()


def test_files_that_do_not_go_together_are_one_sentence(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    encrypted = tmp_path / "encrypted.pem"
    key = load_pem_private_key(authority.key.read_bytes(), None)
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a password")))
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    for certificate, private_key, reason in (
        (None, authority.key, "set --tls-cert"),
        (authority.certificate, None, "cannot be used as certificate and key"),
        (authority.certificate, other.key, "KEY_VALUES_MISMATCH"),
        (authority.certificate, encrypted, "is encrypted"),
        (tmp_path / "empty", authority.key, "cannot be used as certificate and key"),
        (tmp_path / "none", None, "No such file"),
    ):
        with pytest.raises(SettingsError, match=reason):
            TlsFiles.checked(certificate, private_key)


def test_the_key_may_be_in_the_file_of_the_certificate(authority: Authority) -> None:
    assert TlsFiles.checked(authority.both, None) == TlsFiles(authority.both, None)
    assert TlsFiles.checked(None, None) is None
