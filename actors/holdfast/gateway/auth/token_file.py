"""The token file: tokens with their names, roles and tenants. It is reloaded when it changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
import threading
import time
import tomllib
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import InvalidRequest, SettingsError, SettingsUnreadable, Unavailable
from holdfast.gateway.auth.principal import Caller, Role
from holdfast.gateway.auth.tokens import MAX_TOKEN, MIN_TOKEN, Tokens, digest_of
from holdfast.names import DEFAULT_TENANT, VISIBLE, check_id, check_tenant
from holdfast.pushpop.api.requests import explain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
# The file may be on a disk that does not respond.
LOOK_SECONDS = 10.0
#: How long tokens are accepted while the file cannot be read: a token may have been revoked in the meantime.
UNVERIFIED_SECONDS = 60.0
#: The value of ``tenant`` for a token that is not bound to one and reaches all tenants.
NO_TENANT = "*"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    # Role and tenant have no defaults: a partially written file must not grant more than the complete one.
    role: Literal["reader", "user", "operator"]
    tenant: str
    token: Annotated[str | None, Field(min_length=MIN_TOKEN, max_length=MAX_TOKEN, pattern=f"^{VISIBLE}+$")] = None
    sha256: Annotated[str | None, Field(pattern=r"^[0-9a-fA-F]{64}$")] = None

    def digest(self) -> bytes:
        if (self.token is None) == (self.sha256 is None):
            raise InvalidRequest(f"{self.name} needs either 'sha256' or 'token', and not both.")
        return bytes.fromhex(self.sha256) if self.sha256 is not None else digest_of((self.token or "").encode())

    def caller(self) -> Caller:
        bound = self.tenant != NO_TENANT
        tenant = check_tenant(self.tenant) if bound else DEFAULT_TENANT
        return Caller(tenant, Role[self.role.upper()], check_id(self.name, "name"), bound=bound)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: Annotated[list[_Entry], Field(min_length=1, max_length=100_000)]


def parse(text: str) -> Tokens:
    """Parses a token file. Raises ValueError or InvalidRequest; no message contains any part of a token."""
    callers: dict[bytes, Caller] = {}
    names: set[str] = set()
    for entry in _File.model_validate(tomllib.loads(text)).token:
        digest, caller = entry.digest(), entry.caller()
        if digest in callers:
            raise InvalidRequest(f"{caller.name} and {callers[digest].name} have the same token.")
        if caller.name in names:
            raise InvalidRequest(f"two tokens have the name {caller.name}.")
        names.add(caller.name)
        callers[digest] = caller
    return Tokens(callers)


class TokenFile:
    """The tokens of a file, as of its last valid content.

    When the file becomes invalid, the previous tokens stay in use. When it cannot be read, they do so for
    ``UNVERIFIED_SECONDS``; then all tokens are refused until the file can be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked = asyncio.Event()
        self._seen: tuple[int, ...] | None = self._marks()
        self._tokens = self._read()
        self._verified_at = time.monotonic()
        #: Why the last read failed, and whether it was logged that all tokens are refused.
        self._failure: str | None = None
        self._refusing = False

    def tokens(self) -> Tokens:
        """Returns the current tokens. Raises Unavailable when the file has been unreadable for too long."""
        if self._is_unverified():
            raise Unavailable("Tokens cannot be verified now: the token file cannot be read. Try again later.")
        return self._tokens

    def look_now(self) -> None:
        """Makes :meth:`watch` reload the file at once."""
        self._asked.set()

    async def watch(self) -> None:
        """Reloads the file when it changes, until cancelled. An invalid file changes nothing and is logged once."""
        looking: asyncio.Future[None] | None = None
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY_SECONDS):
                    await self._asked.wait()
                self._asked.clear()
                self._seen = None
            except TimeoutError:
                pass
            try:
                looking = looking or _in_daemon_thread(self._look)
                async with asyncio.timeout(LOOK_SECONDS):
                    await asyncio.shield(looking)
                looking = None
            except TimeoutError:
                self._failed(f"The token file {self._path} could not be read within {LOOK_SECONDS:g} s.")
            except RuntimeError as error:
                self._failed(f"The token file {self._path} cannot be read: {error}.")  # no thread can be started
            self._log_when_unverified()

    def _look(self) -> None:
        marks = self._marks()
        if marks and marks == self._seen:
            self._verified()
            return
        try:
            self._tokens = self._read()
        except SettingsUnreadable as error:
            self._failed(str(error))
            return
        except SettingsError as error:
            log.error("%s The previous tokens stay in use.", error)
        except Exception as error:
            # Retried like any other failure. The error's own message is left out, as it may contain values of the file.
            self._failed(f"The token file {self._path} cannot be read: {type(error).__name__}.")
            return
        else:
            many = len(self._tokens)
            log.info("token file %s was reloaded: %d token%s", self._path, many, "" if many == 1 else "s")
            # Only after a successful read: a failed one has to be repeated even if the file does not change any more.
        self._seen = marks
        self._verified()

    def _verified(self) -> None:
        self._verified_at = time.monotonic()
        self._failure = None

    def _failed(self, reason: str) -> None:
        """Logs the failure, once per reason."""
        if reason != self._failure:
            self._failure = reason
            log.error(
                "%s The previous tokens stay in use for at most %g s; retrying every %g s.",
                *(reason, UNVERIFIED_SECONDS, LOOK_EVERY_SECONDS),
            )

    def _is_unverified(self) -> bool:
        return time.monotonic() - self._verified_at > UNVERIFIED_SECONDS

    def _log_when_unverified(self) -> None:
        if self._is_unverified() is self._refusing:
            return
        self._refusing = not self._refusing
        if self._refusing:
            log.critical(
                "token file %s could not be read for %g s: all tokens are refused until it can be read",
                *(self._path, UNVERIFIED_SECONDS),
            )
        else:
            log.info("token file %s can be read again: its tokens are accepted", self._path)

    def _marks(self) -> tuple[int, ...]:
        """Returns values that change with the file's content, its permissions, or when it is replaced."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

    def _read(self) -> Tokens:
        try:
            # O_NONBLOCK: opening a named pipe would wait for a writer.
            with open(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    raise SettingsUnreadable(f"The token file {self._path} cannot be read: it is not a regular file.")
                tokens = parse(file.read().decode())
        except OSError as error:
            raise SettingsUnreadable(f"The token file {self._path} cannot be read: {error.strerror}.") from error
        except ValidationError as error:
            # pydantic's own message is left out, as it contains the values.
            raise SettingsError(f"The token file {self._path} is not valid: {explain(error)}.") from None
        except InvalidRequest as error:
            raise SettingsError(f"The token file {self._path} is not valid: {error}") from None
        except ValueError as error:
            raise SettingsError(f"The token file {self._path} is not TOML in UTF-8: {error}.") from None
        except RecursionError:
            raise SettingsError(f"The token file {self._path} is not valid: it is nested too deeply.") from None
        if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
            log.warning("token file %s can be read or changed by other users: run 'chmod 600' on it", self._path)
        return tokens


def _in_daemon_thread(work: Callable[[], None]) -> asyncio.Future[None]:
    """Runs ``work`` in a daemon thread, which the process does not wait for at exit, unlike ``asyncio.to_thread``."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def run() -> None:
        work()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=run, name="tokens", daemon=True).start()
    return ended
