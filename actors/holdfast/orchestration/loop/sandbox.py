"""Rejects I/O, threads and signals in orchestrations, because a replay would repeat them."""

from __future__ import annotations

import asyncio
import concurrent.futures
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.errors import NotInOrchestrations

if TYPE_CHECKING:
    from collections.abc import Iterator


class SandboxedLoop(asyncio.AbstractEventLoop):
    """An event loop without access to anything outside of it."""


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
    "close": _LOOP,
    "shutdown_asyncgens": _LOOP,
    "set_task_factory": _LOOP,
    "set_exception_handler": _LOOP,
}


def _refusal(name: str, what: str) -> Any:
    def refuse(self: SandboxedLoop, *_: Any, **__: Any) -> NoReturn:
        # A plain function, also where asyncio has a coroutine function, so that it raises even if it is not awaited.
        if what is not _LOOP:
            raise _not_for_orchestrations(what, f"loop.{name}")
        raise NotInOrchestrations(f"An orchestration cannot do this (loop.{name}): its event loop belongs to Holdfast.")

    refuse.__name__ = name
    return refuse


for _name, _what in _REFUSED.items():
    setattr(SandboxedLoop, _name, _refusal(_name, _what))


def _not_for_orchestrations(what: str, name: str) -> NotInOrchestrations:
    return NotInOrchestrations(
        f"An orchestration cannot use {what} ({name}): a replay would repeat it. "
        "Do it in an activity, and await ctx.call(activity, input)."
    )


def _runs_here() -> bool:
    return isinstance(asyncio._get_running_loop(), SandboxedLoop)


_chain_any: Any = asyncio.futures._chain_future  # type: ignore[attr-defined]


def _chain_future(source: Any, destination: Any) -> None:
    """Replaces the function behind asyncio.wrap_future: the future of an executor would never resolve here."""
    if _runs_here() and isinstance(source, concurrent.futures.Future):
        raise _not_for_orchestrations(_THREADS, "asyncio.wrap_future")
    _chain_any(source, destination)


def names() -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Yields the replacements of names while a step runs. On other loops they behave as usual."""
    yield vars(asyncio.futures), "_chain_future", _chain_future
    # anyio starts threads without the loop. All its functions that need one (to_thread, Path, open_file) create an
    # instance of this class.
    with suppress(ImportError, AttributeError):
        anyio = import_module("anyio._backends._asyncio")
        worker_thread: Any = anyio.WorkerThread

        def refuse_in_orchestrations(*args: Any, **options: Any) -> Any:
            if _runs_here():
                raise _not_for_orchestrations(_THREADS, "anyio.to_thread.run_sync")
            return worker_thread(*args, **options)

        yield vars(anyio), "WorkerThread", refuse_in_orchestrations
