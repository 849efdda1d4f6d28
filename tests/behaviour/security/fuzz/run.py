"""A run of the fuzzer, from the start of a server to its end, and its report."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from holdfast.gateway.metrics.event_loop import LONGEST_HOLD_SECONDS
from tests.behaviour.security.fuzz.beside_dapr import FuzzedBesideDapr
from tests.behaviour.security.fuzz.fuzzer import Fuzzer
from tests.behaviour.security.fuzz.server import CALLERS, OPERATOR, STRANGERS, FuzzedServer

if TYPE_CHECKING:
    from pathlib import Path

STOP_SECONDS = 40.0


@dataclass(frozen=True)
class Outcome:
    """The requests and the findings of a run."""

    seed: int
    seconds: float
    findings: list[str]
    #: By route, caller and status, or gRPC's code.
    sent: Counter[tuple[str, str, int | str]]
    heavy: int
    rounds: int
    warnings: Counter[str]
    #: The longest hold of the event loop by the server's own metric, in seconds.
    longest_hold: float
    #: How long garbage collection took where it made a hold too long, in seconds.
    collections: list[float]

    @property
    def longest_collection(self) -> float:
        """Of garbage, where it made a hold too long, in seconds."""
        return max(self.collections, default=0.0)

    def report(self) -> str:
        """A table of what was sent, by route and caller, and what was found."""
        total = sum(self.sent.values())
        names = [caller.name for caller in (*CALLERS, *STRANGERS)]
        lines = [
            f"seed {self.seed}: {total} requests in {self.seconds:.0f} s, {self.heavy} with a large body, "
            f"{self.rounds} full rounds, event loop held for {self.longest_hold * 1000:.0f} ms at most",
            f"held longer to look for garbage: {len(self.collections)} times, {self.longest_collection * 1000:.0f} ms",
            f"by status: {dict(sorted(_by(self.sent, 2).items(), key=str))}",
            f"by caller: { {name: _by(self.sent, 1)[name] for name in names} }",
            *(f"{count:6} {route}" for route, count in sorted(_by(self.sent, 0).items())),
            *(f"{count:6} warnings {text}" for text, count in self.warnings.most_common(20)),
            *(f"\n{finding}" for finding in self.findings),
            f"\n{len(self.findings)} findings",
        ]
        return "\n".join(lines)


async def run(folder: Path, seed: int, seconds: float, *, with_dapr: bool = False) -> Outcome:
    """Starts a server in this folder, fuzzes it, looks whether it still serves, and stops it."""
    server = FuzzedBesideDapr(folder) if with_dapr else FuzzedServer(folder)
    try:
        await server.start()
    except BaseException:
        await server.kill()
        raise
    fuzzer = Fuzzer(server, seed, folder)
    clock = asyncio.get_running_loop().time
    began = clock()
    longest_hold = 0.0
    try:
        while_starting = await _longest_hold(server)
        await fuzzer.run(seconds)
        longest_hold = await _longest_hold(server)
        told = fuzzer.collections or any("event loop" in finding for finding in fuzzer.findings)
        if longest_hold > max(LONGEST_HOLD_SECONDS, while_starting) and not told:
            fuzzer.findings.append(f"seed {seed}: the event loop was held for {longest_hold * 1000:.0f} ms")
        await _still_serves(server)
        async with asyncio.timeout(STOP_SECONDS):
            code = await server.stop()
        if code != 0:
            fuzzer.findings.append(f"seed {seed}: after SIGTERM the server ended with {code}")
    except (TimeoutError, aiohttp.ClientError, AssertionError) as error:
        fuzzer.findings.append(f"seed {seed}: afterwards the server did not serve, or stop: {error!r}")
    finally:
        await server.kill()
    return Outcome(
        *(seed, clock() - began, fuzzer.findings, fuzzer.sent, fuzzer.heavy, fuzzer.rounds, fuzzer.warnings),
        longest_hold=longest_hold,
        collections=fuzzer.collections,
    )


async def _longest_hold(server: FuzzedServer | FuzzedBesideDapr) -> float:
    async with (
        aiohttp.ClientSession(server.url) as session,
        session.get("/metrics", headers=OPERATOR.headers) as answer,
    ):
        assert answer.status == 200
        families = text_string_to_metric_families(await answer.text())
        return next(one.samples[0].value for one in families if one.name == "holdfast_event_loop_held_max_seconds")


async def _still_serves(server: FuzzedServer | FuzzedBesideDapr) -> None:
    """Every tenant can push and pop in a queue that the fuzzer does not know."""
    async with aiohttp.ClientSession(server.url) as session:
        async with session.get("/readyz") as answer:
            assert answer.status == 200
        for caller in CALLERS:
            if caller.role != "user":
                continue
            async with session.post("/queue/after/push", json={"item": caller.name}, headers=caller.headers) as answer:
                assert answer.status == 200, await answer.text()
            async with session.post("/queue/after/pop", headers=caller.headers) as answer:
                assert (await answer.json())["items"] == [caller.name]


def _by(sent: Counter[tuple[str, str, int | str]], place: int) -> Counter[object]:
    counted: Counter[object] = Counter()
    for key, count in sent.items():
        counted[key[place]] += count
    return counted
