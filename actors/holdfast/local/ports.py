"""Ports on loopback that are free now and stay free across a restart of what listens on them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

from holdfast.errors import Unavailable

# Below the range from which Linux and macOS take the ports of outgoing connections: a port of a process that
# was killed must still be free when it is started again.
_LOWEST, _HIGHEST = 15_000, 32_000

_given: set[int] = set()


def free_port() -> int:
    """A port nobody listens on, and that no other process of this user was given this way while it runs."""
    for port in random.sample(range(_LOWEST, _HIGHEST), 200):
        if port not in _given and _is_free(port) and _reserve(port):
            _given.add(port)
            return port
    raise Unavailable(f"No free port was found between {_LOWEST} and {_HIGHEST}.")


def _reserve(port: int) -> bool:
    """Whether it is ours from now on, until this process ends: between this and what listens on it lie seconds."""
    reservations = _reservations()
    if reservations is None:
        return True
    try:
        fcntl.lockf(reservations, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError as error:
        # Any other says that files cannot be locked there, as on some networks.
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


@cache
def _reservations() -> int | None:
    """A file of which a byte is locked for each port, one for each user; None where there cannot be one."""
    file = Path(tempfile.gettempdir()) / f"holdfast-ports-{os.getuid()}"
    with contextlib.suppress(OSError):
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    return None


def _is_free(port: int) -> bool:
    # Placement and scheduler listen on all interfaces for their health, so the port must be free on all.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("", port))
        except OSError:
            return False
    return True
