"""A tenant that attacks a server in every known way at once.

``python -m benchmarks.attackers URL SECONDS [--small] [ATTACK ...]`` attacks from a process of its own. It writes
``ready`` when all that the attacks need is there, ``answered`` when each of them was answered, and at the end how often
each status was answered to each attack.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import click
import uvloop
from yarl import URL

from benchmarks.tenants import ATTACKER, SECRET, VIOLATION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MEBIBYTE = 1024 * 1024
MAX_ANSWER = 8 * MEBIBYTE
_LETTER = json.dumps("x" * (MEBIBYTE - 100)).encode()
# What breaks off, or takes long, is part of an attack.
_EXPECTED = (aiohttp.ClientError, asyncio.TimeoutError, OSError, asyncio.IncompleteReadError)
_SECONDS_FOR_AN_ANSWER = 60.0


@dataclass(frozen=True)
class Size:
    """How much the attacker has on the server, and how many connections it opens for some of the attacks."""

    queues: int = 20
    #: Of each of its queues.
    partitions: int = 256
    letters: int = 40
    #: For large bodies, and for answers that are never read.
    bodies: int = 50
    unread: int = 150


FULL = Size()
#: Prepared in a few seconds; the first answers are not read for a few seconds either.
SMALL = Size(queues=2, partitions=64, letters=6, bodies=6, unread=16)


@dataclass
class Attacker:
    """Attacks until cancelled, and notes what was answered."""

    url: str
    attacks: tuple[str, ...] = ()
    size: Size = FULL
    #: How often each status was answered to each attack.
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    #: What must never be: another tenant's data, an answer that is too large, or a fault of the server.
    violations: list[str] = field(default_factory=list)
    _told: bool = False

    @property
    def answered(self) -> bool:
        """Whether every attack was made and answered where the attacker reads the answer, or refused at its limit."""
        names = set(self.attacks or _NAMES)
        read = {attack for attack, status in self.statuses if status}
        refused = {attack for attack, status in self.statuses if status == 429}
        return names - {unread_answers.__name__} <= read and names & _LIMITED <= refused

    async def run(self, tell: Callable[[str], None]) -> None:
        headers = {"Authorization": f"Bearer {ATTACKER}"}
        timeout = aiohttp.ClientTimeout(total=_SECONDS_FOR_AN_ANSWER)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(self.url, headers=headers, timeout=timeout, connector=connector) as session:
            await self._prepare(session)
            tell("ready")
            async with asyncio.TaskGroup() as group:
                for attack, callers in ATTACKS.items():
                    if attack.__name__ in (self.attacks or _NAMES):
                        count = getattr(self.size, callers) if isinstance(callers, str) else callers
                        for number in range(count):
                            group.create_task(self._repeat(attack, session, number, tell))

    async def _prepare(self, session: aiohttp.ClientSession) -> None:
        for number in range(self.size.queues):
            partitions = b'{"partitions": %d}' % self.size.partitions
            await self.send(session, "prepare", "PUT", f"/queue/wide-{number}/config", partitions)
        for _ in range(3):
            await self.send(session, "prepare", "POST", "/queue/large/push", b'{"item": %b}' % _LETTER)
        start = json.dumps({"instance_id": "large", "input": self.size.letters}).encode()
        await self.send(session, "prepare", "POST", "/orchestrations/reader/start", start)
        for _ in range(self.size.letters):
            await self.send(session, "prepare", "POST", "/orchestrations/large/events/letters", _LETTER)

    async def _repeat(
        self,
        attack: Callable[[Attacker, aiohttp.ClientSession, int], Awaitable[None]],
        session: aiohttp.ClientSession,
        number: int,
        tell: Callable[[str], None],
    ) -> None:
        while True:
            try:
                await attack(self, session, number)
                if not self._told and self.answered:
                    self._told = True
                    tell("answered")
            except _EXPECTED as error:
                self.statuses[attack.__name__, 0] += 1
                log.debug("%s: %r", attack.__name__, error)
                await asyncio.sleep(0.1)

    async def send(
        self,
        session: aiohttp.ClientSession,
        attack: str,
        verb: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> int:
        url = URL(f"{self.url}{path}", encoded=True)
        async with session.request(verb, url, data=body, headers=headers) as answer:
            text = await answer.read()
            self._judge(attack, f"{verb} {path[:100]}", answer, text)
            return answer.status

    def _judge(self, attack: str, what: str, answer: aiohttp.ClientResponse, text: bytes) -> None:
        status = answer.status
        self.statuses[attack, status] += 1
        if SECRET.encode() in text:
            self.violations.append(f"{what} showed what belongs to another tenant")
        if len(text) > MAX_ANSWER:
            self.violations.append(f"{what} was answered with {len(text)} bytes")
        if status >= 500 and not (status == 503 and "Retry-After" in answer.headers):
            self.violations.append(f"{what} was answered with {status}: {text[:200]!r}")


async def long_numbers(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """A number of very many digits that is none."""
    path = f"/orchestrations/x/wait?timeout_seconds={'1' * 31_000}x"
    await attacker.send(session, "long_numbers", "GET", path)


async def unknown_keys(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """A large body of nothing but mistakes."""
    await attacker.send(session, "unknown_keys", "POST", "/queue/mistakes/push", _UNKNOWN_KEYS)
    await attacker.send(session, "unknown_keys", "POST", "/orchestrations/typed/start", _WRONG_INPUT)


async def many_bodies(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """Bodies that take long to read, as large as most calls take them, on many connections at once."""
    await attacker.send(session, "many_bodies", "POST", "/queue/mistakes/complete", _WRONG_IDS)


async def unread_answers(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """Asks for large answers, and reads none of them."""
    path = "/queue/large/peek?count=100" if number % 2 else "/orchestrations/large/history?limit=1000"
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ATTACKER}\r\n\r\n"
    url = URL(attacker.url)
    _, writer = await asyncio.open_connection(url.host, url.port, limit=1024)
    try:
        writer.write(head.encode() * 3)
        await writer.drain()
        attacker.statuses["unread_answers", 0] += 1
        await asyncio.sleep(10 + number % 10)
    finally:
        writer.transport.abort()


async def large_histories(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """All of a history at once, and then page by page."""
    await attacker.send(session, "large_histories", "GET", "/orchestrations/large/history?limit=1000")
    await attacker.send(session, "large_histories", "GET", "/orchestrations/large/history?limit=1000&recorded=true")


async def many_partitions(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """Sends the requests that ask every partition of every queue."""
    queue = f"/queue/wide-{number % attacker.size.queues}"
    for path in ("/queues?limit=100", queue, "/queue/wide-1/peek?count=100", "/metrics"):
        await attacker.send(session, "many_partitions", "GET", path)
    # One of them is touched, so that it has to be asked again.
    await attacker.send(session, "many_partitions", "POST", f"{queue}/push", b'{"item": 1}')
    await attacker.send(session, "many_partitions", "POST", "/queue/wide-0/pop")


async def false_outcomes(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """Outcomes of activities that are no JSON, or too large."""
    instance = f"outcome-{number}-{next(_numbers)}"
    body = json.dumps({"instance_id": instance}).encode()
    await attacker.send(session, "false_outcomes", "POST", "/orchestrations/waiting/start", body)
    for body in _FALSE_OUTCOMES:
        await attacker.send(session, "false_outcomes", "POST", f"/orchestrations/{instance}/outcome", body)
    await attacker.send(session, "false_outcomes", "GET", f"/orchestrations/{instance}/history")
    await attacker.send(session, "false_outcomes", "DELETE", f"/orchestrations/{instance}?force=true")


async def deep_bodies(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """Nested as deep as the parser allows, and deeper than may be kept."""
    for depth in (99, 150, 198, 250):
        body = b'{"item": ' + b"[" * depth + b"]" * depth + b"}"
        await attacker.send(session, "deep_bodies", "POST", "/queue/deep/push", body)


async def other_tenants(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """Requests the honest tenant's data, by every way to name a tenant."""
    named = {"Holdfast-Tenant": "honest"}
    for path in ("/queue/orders", "/queue/orders/peek?count=100", "/queues", "/orchestrations", "/metrics"):
        await attacker.send(session, "other_tenants", "GET", path)
        await attacker.send(session, "other_tenants", "GET", path, headers=named)
    for verb in ("GET", "POST"):
        for queue in ("@honest:orders", "%40honest%3Aorders", "orders"):
            path = f"/v1.0/actors/PushPopActor/{queue}/method/Purge"
            await attacker.send(session, "other_tenants", verb, path)
    await attacker.send(session, "other_tenants", "DELETE", "/queue/orders/items", headers=named)


async def other_sites(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """As the page of another site would have a browser do it."""
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        await attacker.send(session, "other_sites", "GET", "/queue/orders", headers=headers)
        await attacker.send(session, "other_sites", "POST", "/queue/orders/pop", headers=headers)


async def unread_mail(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """Events that the instance never receives, beyond what it may leave unread."""
    instance = f"hoarder-{number}"
    start = json.dumps({"instance_id": instance}).encode()
    await attacker.send(session, "unread_mail", "POST", "/orchestrations/hoarder/start", start)
    await attacker.send(session, "unread_mail", "POST", f"/orchestrations/{instance}/events/letters", _LETTER)


async def event_streams(attacker: Attacker, session: aiohttp.ClientSession, number: int) -> None:
    """Streams of events, more than a tenant may open at once, of things that change all the time."""
    url = f"{attacker.url}/events?topic=queues&topic=instances&topic=queue:wide-0&topic=instance:large"
    async with session.get(url) as answer:
        attacker.statuses["event_streams", answer.status] += 1
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(5 + number % 5):
                await answer.read()
                # A refused stream is asked for again after a second.
                await asyncio.sleep(1)


_numbers = itertools.count()
_UNKNOWN_KEYS = b'{"item": 1' + b"".join(b',"k%x":1' % number for number in range(1_200_000)) + b"}"
_WRONG_INPUT = b'{"input": [' + b",".join([b'"x"'] * 250_000) + b"]}"
_WRONG_IDS = b'{"ids": [' + b",".join([b"1"] * 600_000) + b"]}"
# Made once: what the attacker itself computes is not part of the attack.
_FALSE_OUTCOMES = [
    json.dumps({"of": "activity", "execution_id": 1, "scheduled_seq": 2, "result": result}).encode()
    for result in ("{not JSON", json.dumps("x" * (14 * MEBIBYTE)))
]
#: Each attack, and by how many at once; or which number of the attacker's size that is.
ATTACKS: dict[Callable[[Attacker, aiohttp.ClientSession, int], Awaitable[None]], int | str] = {
    long_numbers: 2,
    unknown_keys: 2,
    many_bodies: "bodies",
    unread_answers: "unread",
    large_histories: 4,
    many_partitions: 5,
    false_outcomes: 2,
    deep_bodies: 4,
    other_tenants: 2,
    other_sites: 1,
    unread_mail: 4,
    event_streams: 60,
}
_NAMES = tuple(attack.__name__ for attack in ATTACKS)
#: Attacks that have to reach a limit.
_LIMITED = {unread_mail.__name__, event_streams.__name__}


async def _attack(attacker: Attacker, seconds: float) -> None:
    def tell(what: str) -> None:
        print(what, flush=True)

    attack = asyncio.create_task(attacker.run(tell))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, attack.cancel)
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(attack, seconds)


@click.command()
@click.argument("url")
@click.argument("seconds", type=float)
@click.argument("attacks", nargs=-1, type=click.Choice(_NAMES), metavar="[ATTACK]...")
@click.option("--small", is_flag=True, help="Prepare and open less, for a short attack.")
@click.option("--nice", type=int, default=0, help="Leave the processor to the server: what to add to the niceness.")
def main(url: str, seconds: float, attacks: tuple[str, ...], small: bool, nice: int) -> None:
    """Attack the server at URL for so long, in every known way or in those named."""
    os.nice(nice)
    attacker = Attacker(url, attacks, SMALL if small else FULL)
    uvloop.run(_attack(attacker, seconds))
    for (name, status), count in sorted(attacker.statuses.items()):
        print(f"{name}: {count} times {status or 'without an answer'}")
    for violation, count in Counter(attacker.violations).most_common():
        print(f"{VIOLATION}: {count} times: {violation}")
    sys.exit(bool(attacker.violations))


if __name__ == "__main__":
    main()
