"""Finds ports that are free now, and stay free while the process that listens on them is restarted."""

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

# Below the range that Linux and macOS use for outgoing connections: the port of a killed process must still be free
# when the process is started again.
_LOWEST, _HIGHEST = 15_000, 32_000

_given: set[int] = set()


def free_port() -> int:
    """Returns a port without a listener that no other running process of this user got from this function."""
    for port in random.sample(range(_LOWEST, _HIGHEST), 200):
        if port not in _given and _is_free(port) and _reserve(port):
            _given.add(port)
            return port
    raise Unavailable(f"No free port was found between {_LOWEST} and {_HIGHEST}.")


def _reserve(port: int) -> bool:
    """Reserves a port until this process ends, since seconds pass before it is used; False if another one has it."""
    reservations = _reservations()
    if reservations is None:
        return True
    try:
        fcntl.lockf(reservations, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError as error:
        # Any other error means that files cannot be locked there, as on some network file systems.
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


@cache
def _reservations() -> int | None:
    """Opens this user's file in which one byte is locked for each reserved port; None if it cannot be made."""
    file = Path(tempfile.gettempdir()) / f"holdfast-ports-{os.getuid()}"
    with contextlib.suppress(OSError):
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    return None


def _is_free(port: int) -> bool:
    # The health ports of placement and scheduler listen on all interfaces, so the port must be free on all.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("", port))
        except OSError:
            return False
    return True
