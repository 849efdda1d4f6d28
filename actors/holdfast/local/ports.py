"""Ports on loopback that are free now and stay free across a restart of what listens on them."""

from __future__ import annotations

import random
import socket

from holdfast.errors import Unavailable

# Below the range from which Linux and macOS take the ports of outgoing connections: a port of a process that
# was killed must still be free when it is started again.
_LOWEST, _HIGHEST = 15_000, 32_000

_given: set[int] = set()


def free_port() -> int:
    """A port nobody listens on, never given twice by this process."""
    for port in random.sample(range(_LOWEST, _HIGHEST), 200):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise Unavailable(f"No free port was found between {_LOWEST} and {_HIGHEST}.")


def _is_free(port: int) -> bool:
    # Placement and scheduler listen on all interfaces for their health, so the port must be free on all.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("", port))
        except OSError:
            return False
    return True
