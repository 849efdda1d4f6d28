"""Two tenants of one server: how they are told apart, and the work that the honest one does beside the attacker."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable

#: Their tokens, with which :func:`write_tokens` fills a file.
ATTACKER = "attacker-0123456789abcdef"
HONEST = "honest-0123456789abcdef"
#: A part of every payload of the honest tenant.
SECRET = "for-the-honest-alone"
#: What the server runs; see :mod:`benchmarks.attacked`.
APP = "benchmarks.attacked:app"
#: How a line of the attacker's log begins that tells of something that must never happen.
VIOLATION = "VIOLATION"

_ROOT = Path(__file__).parents[1]
_SECONDS_FOR_AN_ANSWER = 60.0


def write_tokens(file: Path) -> None:
    """Fills a file of tokens with both tenants; the attacker may do all that a tenant's operator may."""
    tables = [
        f'[[token]]\nname = "{name}"\nrole = "operator"\ntenant = "{name}"\ntoken = "{token}"\n'
        for name, token in (("attacker", ATTACKER), ("honest", HONEST))
    ]
    file.write_text("\n".join(tables))
    file.chmod(0o600)


def peak_memory(pid: int) -> int:
    """The most that a process has had in memory, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def memory_limit() -> int:
    """The memory limit that ``deploy/`` sets for an embedded server, in bytes."""
    manifest = (_ROOT / "deploy/kubernetes/overlays/embedded/statefulset.yaml").read_text()
    [gibibytes] = re.findall(r"limits:\n\s+memory: (\d+)Gi", manifest)
    return int(gibibytes) * 1024**3


@dataclass
class Honest:
    """Pushes, takes and acknowledges, and runs orchestrations; every answer is checked."""

    url: str
    #: How long each lock lasts.
    lock_seconds: int = 30
    #: Of each call, in seconds.
    taken: list[float] = field(default_factory=list)
    pushed: int = 0
    received: list[int] = field(default_factory=list)
    orchestrations: int = 0

    async def run(self, *, until: Callable[[], bool]) -> None:
        """Works in rounds until this is so."""
        headers = {"Authorization": f"Bearer {HONEST}"}
        timeout = aiohttp.ClientTimeout(total=_SECONDS_FOR_AN_ANSWER)
        async with aiohttp.ClientSession(self.url, headers=headers, timeout=timeout) as session:
            while not until():
                await self._round(session)

    async def _round(self, session: aiohttp.ClientSession) -> None:
        item = {"number": self.pushed, "secret": SECRET}
        await self._ask(session, "POST", "/queue/orders/push", {"item": item})
        self.pushed += 1
        pop = f"/queue/orders/pop?require_ack=true&ttl_seconds={self.lock_seconds}"
        popped = await self._ask(session, "POST", pop)
        assert [found["secret"] for found in popped["items"]] == [SECRET], popped
        self.received += [found["number"] for found in popped["items"]]
        acknowledged = await self._ask(session, "POST", "/queue/orders/acknowledge", {"lock_id": popped["lock_id"]})
        assert acknowledged["items_acknowledged"] == 1
        if self.pushed % 10 == 0:
            started = await self._ask(session, "POST", "/orchestrations/echo/start", {"input": SECRET})
            ended = await self._ask(session, "GET", f"/orchestrations/{started['instance_id']}/wait")
            assert (ended["status"], ended["output"]) == ("COMPLETED", SECRET), ended
            self.orchestrations += 1

    async def _ask(self, session: aiohttp.ClientSession, verb: str, path: str, body: Any = None) -> Any:
        began = time.perf_counter()
        async with session.request(verb, path, json=body) as answer:
            found = await answer.json()
            assert answer.status in (200, 202), f"{verb} {path}: {answer.status} {found}"
        self.taken.append(time.perf_counter() - began)
        return found
