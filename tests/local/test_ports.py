"""Ports are given once: within a process, and to one of several that look at the same time."""

from __future__ import annotations

import errno
import fcntl
import random
import socket
import subprocess
import sys

import pytest

from holdfast.errors import Unavailable
from holdfast.local.ports import free_port

TAKES_ONE = "from holdfast.local.ports import free_port; print(free_port(), flush=True); input()"


@pytest.fixture
def candidates(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ports that ``free_port`` tries, in place of random ones."""
    ports: list[int] = []
    monkeypatch.setattr(random, "sample", lambda _all, _count: ports)
    return ports


def test_one_that_another_process_was_given_is_not_given_before_it_ends(candidates: list[int]) -> None:
    command = [sys.executable, "-c", TAKES_ONE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        candidates.append(port)  # on which no process listens
        with pytest.raises(Unavailable):
            free_port()
        other.communicate("\n")
    assert free_port() == port


def test_where_nothing_can_be_locked_ports_are_given_all_the_same(
    candidates: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    candidates.extend(range(31_100, 31_200))
    assert free_port() in candidates


def test_one_is_not_given_twice(candidates: list[int]) -> None:
    candidates.extend(range(31_000, 31_100))
    first = free_port()
    assert free_port() != first


def test_one_on_which_somebody_listens_is_not_given(candidates: list[int]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        candidates.append(server.getsockname()[1])
        with pytest.raises(Unavailable):
            free_port()
