"""The file of tokens: who may come in, as what, and for which tenant. Read again when it changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
import threading
import tomllib
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import InvalidRequest, SettingsError
from holdfast.gateway.callers import Caller, Role
from holdfast.gateway.tokens import MAX_TOKEN, MIN_TOKEN, Tokens, digest_of
from holdfast.identity import DEFAULT_TENANT, VISIBLE, check_id, check_tenant
from holdfast.pushpop.requests import explain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
# A file may lie on a disk that does not answer.
LOOK_SECONDS = 10.0
#: Of a token that is bound to none, and reaches all of them.
NO_TENANT = "*"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    # Both are asked for: a file that was half written must not say more than the whole.
    role: Literal["reader", "user", "operator"]
    tenant: str
    token: Annotated[str | None, Field(min_length=MIN_TOKEN, max_length=MAX_TOKEN, pattern=f"^{VISIBLE}+$")] = None
    sha256: Annotated[str | None, Field(pattern=r"^[0-9a-fA-F]{64}$")] = None

    def digest(self) -> bytes:
        if (self.token is None) == (self.sha256 is None):
            raise InvalidRequest(f"{self.name} needs either 'sha256' or 'token'.")
        return bytes.fromhex(self.sha256) if self.sha256 is not None else digest_of((self.token or "").encode())

    def caller(self) -> Caller:
        bound = self.tenant != NO_TENANT
        tenant = check_tenant(self.tenant) if bound else DEFAULT_TENANT
        return Caller(tenant, Role[self.role.upper()], check_id(self.name, "name"), bound=bound)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: Annotated[list[_Entry], Field(min_length=1, max_length=100_000)]


def parse(text: str) -> Tokens:
    """Raises ValueError, or InvalidRequest, with what is wrong; nothing of a token is part of it."""
    callers: dict[bytes, Caller] = {}
    names: set[str] = set()
    for entry in _File.model_validate(tomllib.loads(text)).token:
        digest, caller = entry.digest(), entry.caller()
        if digest in callers:
            raise InvalidRequest(f"{caller.name} and {callers[digest].name} have the same token.")
        if caller.name in names:
            raise InvalidRequest(f"two tokens are called {caller.name}.")
        names.add(caller.name)
        callers[digest] = caller
    return Tokens(callers)


class TokenFile:
    """The tokens of a file, as it was when it was last right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked = asyncio.Event()
        self._seen: tuple[int, ...] | None = self._marks()
        self._tokens = self._read()

    def tokens(self) -> Tokens:
        return self._tokens

    def look_now(self) -> None:
        """Has :meth:`watch` read it at once."""
        self._asked.set()

    async def watch(self) -> None:
        """Until cancelled. A file that became wrong changes nothing, and is told of once."""
        looking: asyncio.Future[None] | None = None
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY_SECONDS):
                    await self._asked.wait()
                self._asked.clear()
                self._seen = None
            except TimeoutError:
                pass
            late = looking is not None
            looking = looking or _apart(self._look)
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await asyncio.shield(looking)
                looking = None
            except TimeoutError:
                if not late:
                    log.error(
                        "%s did not answer within %g s. The tokens of before stay until it does.",
                        *(self._path, LOOK_SECONDS),
                    )

    def _look(self) -> None:
        marks = self._marks()
        if marks == self._seen:
            return
        self._seen = marks
        try:
            self._tokens = self._read()
        except SettingsError as error:
            log.error("%s The tokens of before stay.", error)
        except Exception as error:
            # Whatever it is, the next change must be seen. Not in its own words, which may repeat the values.
            log.error("%s cannot be read: %s. The tokens of before stay.", self._path, type(error).__name__)
        else:
            many = len(self._tokens)
            log.info("%s was read again: %d token%s", self._path, many, "" if many == 1 else "s")

    def _marks(self) -> tuple[int, ...]:
        """What changes when the file does, or who may read it, also when another takes its place."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

    def _read(self) -> Tokens:
        try:
            # Whoever opens a named pipe waits until somebody writes, unless told not to.
            with open(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    raise SettingsError(f"The file of tokens {self._path} cannot be read: it is not a regular file.")
                tokens = parse(file.read().decode())
        except OSError as error:
            raise SettingsError(f"The file of tokens {self._path} cannot be read: {error.strerror}.") from error
        except ValidationError as error:
            # Not in pydantic's own words, which repeat the values.
            raise SettingsError(f"The file of tokens {self._path} is not right: {explain(error)}.") from None
        except InvalidRequest as error:
            raise SettingsError(f"The file of tokens {self._path} is not right: {error}") from None
        except ValueError as error:
            raise SettingsError(f"The file of tokens {self._path} is not TOML in UTF-8: {error}.") from None
        except RecursionError:
            raise SettingsError(f"The file of tokens {self._path} is not right: it is nested too deep.") from None
        if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
            log.warning("%s can be read or changed by others: 'chmod 600' keeps it to its owner", self._path)
        return tokens


def _apart(work: Callable[[], None]) -> asyncio.Future[None]:
    """In a thread that nobody waits for at the end, unlike those of ``asyncio.to_thread``."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def run() -> None:
        work()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=run, name="tokens", daemon=True).start()
    return ended
