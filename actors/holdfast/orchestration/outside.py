"""What an orchestration must not do, because a replay would do it again: it is told what to do instead."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from holdfast.errors import NotInOrchestrations


class NothingOutside(asyncio.AbstractEventLoop):
    """An event loop from which nothing outside of it can be reached."""


_NETWORK = "connections"
_FILES = "files and pipes"
_PROCESSES = "subprocesses"
_THREADS = "threads"
_SIGNALS = "signals"
_LOOP = "starting, stopping or changing the event loop"

_REFUSED = {
    "run_in_executor": _THREADS,
    "set_default_executor": _THREADS,
    "shutdown_default_executor": _THREADS,
    "getaddrinfo": _NETWORK,
    "getnameinfo": _NETWORK,
    "create_connection": _NETWORK,
    "create_server": _NETWORK,
    "start_tls": _NETWORK,
    "create_unix_connection": _NETWORK,
    "create_unix_server": _NETWORK,
    "connect_accepted_socket": _NETWORK,
    "create_datagram_endpoint": _NETWORK,
    "sendfile": _NETWORK,
    "sock_recv": _NETWORK,
    "sock_recv_into": _NETWORK,
    "sock_recvfrom": _NETWORK,
    "sock_recvfrom_into": _NETWORK,
    "sock_sendall": _NETWORK,
    "sock_sendto": _NETWORK,
    "sock_connect": _NETWORK,
    "sock_accept": _NETWORK,
    "sock_sendfile": _NETWORK,
    "connect_read_pipe": _FILES,
    "connect_write_pipe": _FILES,
    "add_reader": _FILES,
    "remove_reader": _FILES,
    "add_writer": _FILES,
    "remove_writer": _FILES,
    "subprocess_shell": _PROCESSES,
    "subprocess_exec": _PROCESSES,
    "add_signal_handler": _SIGNALS,
    "remove_signal_handler": _SIGNALS,
    "run_forever": _LOOP,
    "run_until_complete": _LOOP,
    "stop": _LOOP,
    "shutdown_asyncgens": _LOOP,
    "set_task_factory": _LOOP,
    "set_exception_handler": _LOOP,
}


def _refusal(name: str, what: str) -> Any:
    def refuse(self: NothingOutside, *_: Any, **__: Any) -> NoReturn:
        # A plain function, where asyncio has a coroutine function: it raises where it is called, awaited or not.
        raise NotInOrchestrations(
            f"An orchestration has no use for {what} (loop.{name}): what it does is done again when it is replayed. "
            "Do it in an activity, and await ctx.call(activity, input)."
            if what is not _LOOP
            else f"An orchestration cannot do this (loop.{name}): its event loop belongs to Holdfast."
        )

    refuse.__name__ = name
    return refuse


for _name, _what in _REFUSED.items():
    setattr(NothingOutside, _name, _refusal(_name, _what))
