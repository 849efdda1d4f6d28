"""Sends requests from several senders at once for some time, and keeps what was found wrong."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter, deque
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from holdfast.gateway.metrics.event_loop import LONGEST_HOLD_SECONDS
from holdfast.gateway.middleware.body_limits import MAX_CALL
from tests.behaviour.security.fuzz import beside_dapr, grpc_calls
from tests.behaviour.security.fuzz.beside_dapr import FuzzedBesideDapr
from tests.behaviour.security.fuzz.checks import problems
from tests.behaviour.security.fuzz.grpc_calls import GrpcAnswer, GrpcPort
from tests.behaviour.security.fuzz.log import LogReader
from tests.behaviour.security.fuzz.operations import Operation, described, of_actors, undescribed
from tests.behaviour.security.fuzz.requests import Request, Requests
from tests.behaviour.security.fuzz.schemas import Learned, Sampler
from tests.behaviour.security.fuzz.server import CALLERS, OPERATOR, STRANGERS, TENANTS, Caller, configure, fill
from tests.support.rest import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.behaviour.security.fuzz.server import FuzzedServer

SENDERS = 6
ANSWER_SECONDS = 30.0
#: How long a stream of events is read. Its first event comes within a second.
STREAM_SECONDS = 2.0
_REFILL_SECONDS = 4.0
_LOOK_SECONDS = 0.2
_LEARNED_BYTES = 64 * 1024
_MOST_FINDINGS = 40
_GRPC_SHARE = 0.2
# The clocks of the two processes are the same, but the log's has milliseconds only.
_CLOCK_SECONDS = 0.02


class Fuzzer:
    """A fuzzing run against a server, from a seed."""

    def __init__(self, server: FuzzedServer | FuzzedBesideDapr, seed: int, folder: Path) -> None:
        self._server = server
        self._seed = seed
        self._folder = folder
        self._learned = Learned()
        self._log = LogReader(server.log)
        self._grpc: GrpcPort | None = None
        self._recent: deque[Request] = deque(maxlen=3000)
        self._one_heavy = asyncio.Lock()
        self._numbers = itertools.count()
        self._found: set[tuple[str, str]] = set()
        self._deadline = 0.0
        self._unanswered = 0
        #: What is wrong, each with the seed, the request and the answer.
        self.findings: list[str] = []
        #: How many requests were answered, by route, caller and status.
        self.sent: Counter[tuple[str, str, int | str]] = Counter()
        #: Of the holds that would not have been too long but for garbage collection: how long that took, in seconds.
        self.collections: list[float] = []
        self.rounds = 0
        self.heavy = 0

    @property
    def warnings(self) -> Counter[str]:
        """The warnings of the server's log."""
        return self._log.warnings

    async def run(self, seconds: float) -> None:
        """Fuzzes for so long, and at least until every route was asked by every caller."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        connector = aiohttp.TCPConnector(limit=0)
        async with contextlib.AsyncExitStack() as stack:
            self._session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector, timeout=timeout))
            if self._server.grpc_port is not None:
                self._grpc = await stack.enter_async_context(GrpcPort(self._server.grpc_port))
            self._requests = await self._begin()
            self._deadline = asyncio.get_running_loop().time() + seconds
            looking = asyncio.create_task(self._look_from_time_to_time())
            refilling = asyncio.create_task(self._refill())
            try:
                work = self._work()
                async with asyncio.TaskGroup() as group:
                    for _ in range(SENDERS):
                        group.create_task(self._send_all(work))
            finally:
                refilling.cancel()
                looking.cancel()
                await asyncio.gather(refilling, looking, return_exceptions=True)
            self._look()

    async def _begin(self) -> Requests:
        answer = await self._ask(OPERATOR, "GET", "/openapi.json")
        document = answer.ok()
        self._routes = [*described(document), *undescribed()]
        self._actor_methods = list(of_actors())
        if isinstance(self._server, FuzzedBesideDapr):
            # SECURITY.md says that larger ones, which daprd lets pass, hold the event loop.
            self._actor_methods = [replace(one, max_body=min(one.max_body, MAX_CALL)) for one in self._actor_methods]
        for tenant in TENANTS:
            await configure(self._asking(tenant))
            await fill(self._asking(tenant), tenant, 0)
            status = (await self._ask(_operator_of(tenant), "GET", "/queue/spread")).ok()
            assert status["count"] > 0
            assert status["locked"] > 0
            heartbeat = {"execution_id": 1, "scheduled_seq": 2, "details": "1"}
            beating = await self._ask(_operator_of(tenant), "POST", "/orchestrations/beating/heartbeat", heartbeat)
            assert beating.ok()["awaited"]
        models = dict(document["components"]["schemas"])
        for operation in (*self._routes, *self._actor_methods):
            models |= (operation.body or {}).get("$defs", {})
        return Requests(Sampler(models, self._learned))

    def _work(self) -> Iterator[tuple[Operation, Caller]]:
        """Every route with every caller, in another order each time, until time is up."""
        actors = [(operation, OPERATOR) for operation in self._actor_methods]
        routes = [(operation, caller) for operation in self._routes for caller in (*CALLERS, *STRANGERS)]
        chance = Random(self._seed)
        while True:
            others = [(operation, chance.choice(CALLERS[:-1])) for operation in self._actor_methods]
            pairs = [*routes, *actors, *others]
            chance.shuffle(pairs)
            for pair in pairs:
                if self._is_over():
                    return
                yield pair
            self.rounds += 1

    def _is_over(self) -> bool:
        if not self._server.running or self._unanswered > SENDERS or len(self.findings) >= _MOST_FINDINGS:
            return True
        return self.rounds > 0 and asyncio.get_running_loop().time() > self._deadline

    async def _send_all(self, work: Iterator[tuple[Operation, Caller]]) -> None:
        for operation, caller in work:
            number = next(self._numbers)
            chance = Random(f"{self._seed}/{number}")
            request = self._requests.make(number, operation, caller, chance)
            if request.heavy:
                async with self._one_heavy:
                    self.heavy += 1
                    await self._send_both(request, chance)
                    self._look()
            else:
                await self._send_both(request, chance)

    async def _send_both(self, request: Request, chance: Random) -> None:
        """Sends a request over HTTP, and some of them over gRPC as well."""
        await self._send(request, chance)
        if self._grpc is not None and not request.chunked and chance.random() < _GRPC_SHARE:
            await self._send_by_grpc(self._grpc, request, chance)

    async def _send_by_grpc(self, port: GrpcPort, request: Request, chance: Random) -> None:
        again = replace(request, made_of=f"{request.made_of} over gRPC", began=time.time(), ended=float("inf"))
        self._recent.append(again)
        try:
            answer = await port.send(again, chance, ANSWER_SECONDS)
        except TimeoutError:
            self._unanswered += 1
            self._add("no answer over gRPC", again, None)
            return
        finally:
            again.ended = time.time()
        self.sent[f"gRPC {answer.call}", again.caller.name, answer.status or answer.code] += 1
        for problem in grpc_calls.problems(again, answer):
            self._add(problem, again, answer)

    async def _send(self, request: Request, chance: Random) -> None:
        self._recent.append(request)
        request.began = time.time()
        try:
            answer = await self._answer(request)
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            if self._is_for_daprd(request) and not isinstance(error, TimeoutError):
                return  # daprd (1.18.2) closes some connections without an answer
            # A body that is too large is refused before it was read, and the connection closed.
            if len(request.body or b"") <= request.operation.max_body or isinstance(error, TimeoutError):
                self._unanswered += 1
                self._add(f"no answer: {type(error).__name__}", request, None)
            return
        finally:
            request.ended = time.time()
        self.sent[request.operation.route, request.caller.name, answer.status] += 1
        for problem in self._problems(request, answer):
            self._add(problem, request, answer)
        if answer.status < 300 and len(answer.text) < _LEARNED_BYTES:
            with contextlib.suppress(ValueError):
                self._learned.learn(answer.body, chance)

    async def _answer(self, request: Request) -> Answer:
        body: Any = request.body
        if request.chunked and body is not None:
            body = _in_pieces(body)
        server = self._server.actors_url if request.operation.is_of_actors else self._server.url
        url = URL(server + request.path, encoded=True)
        async with self._session.request(request.operation.verb, url, data=body, headers=request.headers) as answer:
            is_stream = request.operation.is_stream and answer.content_type == "text/event-stream"
            read = await _read_for_a_while(answer) if is_stream else await answer.read()
            return Answer(answer.status, answer.headers, read)

    def _problems(self, request: Request, answer: Answer) -> Iterator[str]:
        if self._is_for_daprd(request):
            return beside_dapr.problems(request, answer)
        return problems(request, answer)

    def _is_for_daprd(self, request: Request) -> bool:
        return request.operation.is_of_actors and isinstance(self._server, FuzzedBesideDapr)

    async def _ask(self, caller: Caller, verb: str, path: str, body: Any = None) -> Answer:
        """A request that is as it should be; its answer is checked like any other."""
        data = None if body is None else json.dumps(body).encode()
        operation = Operation(verb, path.partition("?")[0], max_body=2**24)
        may_see = frozenset({caller.tenant} if caller.tenant else TENANTS)
        request = Request(-1, operation, caller, path, caller.headers, data, may_see, began=time.time())
        self._recent.append(request)
        answer = await self._answer(request)
        request.ended = time.time()
        for problem in problems(request, answer):
            self._add(problem, request, answer)
        return answer

    def _asking(self, tenant: str) -> Any:
        async def ask(verb: str, path: str, body: Any) -> Any:
            answer = await self._ask(_operator_of(tenant), verb, path, body)
            return answer.body if answer.status < 300 else None

        return ask

    async def _refill(self) -> None:
        """Puts back what the requests take, delete and end."""
        for number in itertools.count(1):
            await asyncio.sleep(_REFILL_SECONDS)
            for tenant in TENANTS:
                try:
                    await fill(self._asking(tenant), tenant, number)
                except (aiohttp.ClientError, TimeoutError) as error:
                    self.findings.append(f"seed {self._seed}: the server did not answer an operator: {error!r}")

    async def _look_from_time_to_time(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()

    def _look(self) -> None:
        """Reads what the log has to say, and of which requests."""
        for line in self._log.read():
            if line.held and line.held - line.collecting <= LONGEST_HOLD_SECONDS:
                self.collections.append(line.collecting)
                continue
            since = line.at - line.held - _CLOCK_SECONDS
            suspects = [one for one in self._recent if one.began <= line.at + _CLOCK_SECONDS and one.ended >= since]
            suspects.sort(key=lambda one: len(one.body or b""), reverse=True)
            routes = f"{suspects[0].operation.route} {suspects[0].made_of}" if suspects else ""
            if ("log", routes) not in self._found:
                self._found.add(("log", routes))
                told = "\n  ".join(map(str, suspects[:4]))
                self.findings.append(
                    f"seed {self._seed}: the log says: {_ends(line.text)}\n under way, largest first:\n  {told}"
                )

    def _add(self, problem: str, request: Request, answer: Answer | GrpcAnswer | None) -> None:
        key = (problem, request.operation.route)
        if key in self._found:
            return
        self._found.add(key)
        if request.body is not None and len(request.body) > 600:
            (self._folder / f"request-{request.number}.body").write_bytes(request.body)
        told = str(answer)
        if isinstance(answer, Answer):
            told = f"{answer.status} {dict(answer.headers)} {answer.text[:1500]!r}"
        self.findings.append(f"seed {self._seed}: {problem}\n {request}\n answer: {told}")


def _ends(text: str, most: int = 1500) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def _operator_of(tenant: str) -> Caller:
    return next(caller for caller in CALLERS if (caller.role, caller.tenant) == ("operator", tenant))


async def _read_for_a_while(answer: aiohttp.ClientResponse) -> bytes:
    """Reads a stream until it has told of a change, or nothing comes for a while."""
    read = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STREAM_SECONDS):
            while b"data: " not in read and (piece := await answer.content.readany()):
                read += piece
    return read


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for place in range(0, max(1, len(body)), 65_536):
        yield body[place : place + 65_536]
