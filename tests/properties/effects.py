"""Effects that must happen once: a record beside a model of it, and workers that die, stall and come back."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import AlreadyInProgress, HoldfastError, LeaseLost
from holdfast.idempotency import record as record_core
from holdfast.idempotency.actor import IdempotencyActor
from holdfast.idempotency.interface import record_id
from holdfast.idempotency.record import DEFAULT_RETENTION, Record, Status
from holdfast.kinds import IDEMPOTENCY_TYPE
from holdfast.runtime.serialization import dump, load
from holdfast.runtime.simulated import Faults, SimulatedHost, VirtualTimeLoop
from tests.support.seeds import OPERATIONS_PER_SEED, noting_seed

MORNING = 1_800_000_000.0
#: With a fence each; the last one has it several times, one delivery after the other.
OWNERS = (("ann", 0), ("ben", 0), ("cat", 1), ("cat", 2), ("cat", 3))
LIVES = (None, None, "first", "second")

Answer = Any
Owner = tuple[str, int]


@dataclass
class Model:
    """The last thing that was accepted, and what follows from it."""

    last: str | None = None
    owner: Owner = ("", 0)
    attempts: int = 0
    lease: float = 0.0
    forgotten: float = 0.0
    result: str | None = None
    life: str | None = None

    def begin(self, now: float, owner: Owner, lease: float, life: str | None) -> Answer:
        counts = self._known(now) and (life is None or life == self.life)
        if counts and self.last == "commit":
            return ("done", self.result)
        same = owner[0] == self.owner[0]
        if counts and same and owner < self.owner:
            return LeaseLost
        held = counts and self.last == "begin" and now < self.lease
        if held and not same:
            return (AlreadyInProgress, self.lease)
        before = self.attempts if counts else 0
        self.life = self.life if counts else life
        self.attempts = before if held and owner == self.owner else before + 1
        self._accept("begin", owner, now + DEFAULT_RETENTION)
        self.lease = now + lease
        return ("run", self.attempts, self.lease)

    def renew(self, now: float, owner: Owner, lease: float) -> Answer:
        if not self._owns(now, owner) or self.last != "begin":
            return LeaseLost
        self.lease, self.forgotten = now + lease, now + DEFAULT_RETENTION
        return ("renewed", self.lease)

    def commit(self, now: float, owner: Owner, result: str, retention: float) -> Answer:
        if not self._owns(now, owner):
            return LeaseLost
        if self.last != "commit":
            self._accept("commit", owner, now + retention)
            self.result = result
        return "committed"

    def fail(self, now: float, owner: Owner) -> Answer:
        if not self._owns(now, owner) or self.last == "commit":
            return LeaseLost
        self._accept("fail", owner, now + DEFAULT_RETENTION)
        return "failed"

    def _accept(self, what: str, owner: Owner, forgotten: float) -> None:
        self.last, self.owner, self.forgotten = what, owner, forgotten

    def _known(self, now: float) -> bool:
        return self.last is not None and now < self.forgotten

    def _owns(self, now: float, owner: Owner) -> bool:
        return self._known(now) and owner == self.owner


class Real:
    """The state machine, saved and read again after every step."""

    def __init__(self) -> None:
        self._stored: bytes | None = None

    @property
    def record(self) -> Record | None:
        return None if self._stored is None else Record.from_json(load(self._stored))

    def begin(self, now: float, owner: Owner, lease: float, life: str | None) -> Answer:
        name, fence = owner
        try:
            record = self._keep(record_core.begin(self.record, now, name, lease, life, fence))
        except AlreadyInProgress as error:
            return (AlreadyInProgress, error.details["lease_expires_at"])
        except LeaseLost:
            return LeaseLost
        if record.status is Status.SUCCESS:
            return ("done", record.result)
        return ("run", record.attempts, record.lease_expires_at)

    def renew(self, now: float, owner: Owner, lease: float) -> Answer:
        name, fence = owner
        try:
            return ("renewed", self._keep(record_core.renew(self.record, now, name, lease, fence)).lease_expires_at)
        except LeaseLost:
            return LeaseLost

    def commit(self, now: float, owner: Owner, result: str, retention: float) -> Answer:
        name, fence = owner
        try:
            self._keep(record_core.commit(self.record, now, name, result, retention, fence))
        except LeaseLost:
            return LeaseLost
        return "committed"

    def fail(self, now: float, owner: Owner) -> Answer:
        name, fence = owner
        try:
            self._keep(record_core.fail(self.record, now, name, "no", fence))
        except LeaseLost:
            return LeaseLost
        return "failed"

    def _keep(self, record: Record) -> Record:
        self._stored = dump(record.to_json())
        return record


def compare(seed: int) -> None:
    """Asks the same of both, on a clock that is set forward and back, and raises where they differ."""
    with noting_seed(seed, "test_effects.py"):
        generator = random.Random(seed)
        model, real, now = Model(), Real(), MORNING
        for number in range(OPERATIONS_PER_SEED):
            now = _later_or_earlier(generator, model, now)
            what, *given = _operation(generator, number)
            asked = (now, *given)
            assert getattr(real, what)(*asked) == getattr(model, what)(*asked), (what, asked)
            known = record_core.current(real.record, now)
            assert (known is not None) == (model.last is not None and now < model.forgotten)


def _later_or_earlier(generator: random.Random, model: Model, now: float) -> float:
    step = generator.random()
    if step < 0.5:
        return now
    if step < 0.8:
        return now + generator.uniform(0, 40)
    if step < 0.9:
        return now - generator.choice((0.001, 1, 60, DEFAULT_RETENTION))
    # Just before, at, and just after what matters.
    return generator.choice((model.lease, model.forgotten)) + generator.choice((-0.001, 0, 0.001)) or now


def _operation(generator: random.Random, number: int) -> tuple[Any, ...]:
    owner, lease = generator.choice(OWNERS), generator.choice((1, 30, 3600))
    match generator.choice(("begin", "begin", "begin", "renew", "commit", "fail")):
        case "begin":
            return ("begin", owner, lease, generator.choice(LIVES))
        case "renew":
            return ("renew", owner, lease)
        case "commit":
            return ("commit", owner, str(number), generator.choice((1, 60, DEFAULT_RETENTION)))
    return ("fail", owner)


# Workers on a host that crashes


FAULTS = Faults(load_fails=0.02, save_fails=0.05, reply_lost=0.05, crash_before_save=0.02, crash_after_save=0.02)
LEASE = 5
WORKERS = 6
KEYS = ("invoice", "mail")


@dataclass
class Effect:
    """An effect of a worker, and the time at which the record let it run."""

    owner: str
    begun: float


@dataclass
class History:
    """Of one key."""

    effects: list[Effect] = field(default_factory=list)
    #: Who was told that its commit counts, and when.
    committed: tuple[str, float] | None = None
    died: int = 0
    #: How often its message was delivered.
    deliveries: int = 0


class _Simulation:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._host = SimulatedHost(seed=seed, faults=FAULTS)
        self._restarting = asyncio.Lock()
        self._histories = {key: History() for key in KEYS}
        self._owners = 0

    async def run(self) -> None:
        await self._host.register(IdempotencyActor)
        await self._host.start()
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(WORKERS):
                    workers.create_task(self._work())
            for key, history in self._histories.items():
                await self._check(key, history)
            await self._check_nothing_is_left_when_its_time_is_over()
        finally:
            await self._host.stop()

    async def _work(self) -> None:
        for _ in range(4):
            key = self._random.choice(KEYS)
            await asyncio.sleep(self._random.uniform(0, 3))
            await self._process(key)

    async def _process(self, key: str, *, surely: bool = False) -> None:
        history = self._histories[key]
        loop = asyncio.get_running_loop()
        named, fence = self._somebody(history, of_its_own=surely)
        owner = "-".join(str(part) for part in named.values())
        while True:
            answer = await self._ask(key, "Begin", {"key": key, "lease_seconds": LEASE} | named)
            if answer.get("error_code") == "IN_PROGRESS":
                await asyncio.sleep(self._random.uniform(0, 2))
                continue
            break
        if answer.get("error_code") == "LEASE_LOST":
            assert fence < history.deliveries, "refused though it was the last delivery"
            return
        if answer["outcome"] == "done":
            assert history.committed is None or history.committed[0] == answer["result"]
            return
        begun = loop.time()
        assert history.committed is None, "it was told to run what had been done"
        fate = "does" if surely else self._random.choice(("does", "does", "fails", "dies early", "dies late", "stalls"))
        if fate == "dies early":
            history.died += 1
            return
        if fate == "fails":
            await self._ask(key, "Fail", named | {"error": "no"})
            return
        if fate == "stalls":
            await asyncio.sleep(2 * LEASE)
        history.effects.append(Effect(owner, begun))
        if fate == "dies late":
            history.died += 1
            return
        answer = await self._ask(key, "Commit", named | {"result": owner})
        if answer["success"]:
            assert history.committed is None or history.committed[0] == owner, "two were told that theirs counts"
            history.committed = history.committed or (owner, loop.time())
        else:
            assert answer["error_code"] == "LEASE_LOST"
            superseded = 0 < fence < history.deliveries
            assert fate == "stalls" or superseded or begun + LEASE < loop.time(), "refused though its lease was its own"

    def _somebody(self, history: History, *, of_its_own: bool) -> tuple[dict[str, Any], int]:
        """A worker with a name of its own, or one that has the message, as others had it before."""
        if of_its_own or self._random.random() < 0.5:
            self._owners += 1
            return {"owner": f"worker-{self._owners}"}, 0
        history.deliveries += 1
        return {"owner": "message", "fence": history.deliveries}, history.deliveries

    async def _check(self, key: str, history: History) -> None:
        await self._process(key, surely=True)
        assert history.committed is not None
        owner, at = history.committed
        assert owner in {effect.owner for effect in history.effects}
        assert all(effect.begun < at for effect in history.effects)
        shown = await self._ask(key, "Get", None)
        assert (shown["status"], shown["result"]) == ("SUCCESS", owner)

    async def _check_nothing_is_left_when_its_time_is_over(self) -> None:
        self._host.faults = Faults()
        await asyncio.sleep(DEFAULT_RETENTION + 120)
        assert not [row for row in self._host.storage.rows if f"||{IDEMPOTENCY_TYPE}||" in row]

    async def _ask(self, key: str, method: str, data: Any) -> Any:
        """Repeats a call with the same body until it is answered."""
        body = b"" if data is None else dump(data)
        while True:
            host = self._host
            try:
                answer = await host.client.invoke_method(IDEMPOTENCY_TYPE, record_id("default", key), method, body)
            except HoldfastError:
                await self._restart_if_dead(host)
            else:
                return load(answer)
            await asyncio.sleep(0.05)

    async def _restart_if_dead(self, host: SimulatedHost) -> None:
        async with self._restarting:
            if host is self._host and host.crashed.is_set():
                self._host = await host.restarted()


def simulate(seed: int) -> None:
    """However processes crash and workers die: what was told to have happened once is never run again."""

    async def run() -> None:
        await _Simulation(seed).run()

    with noting_seed(seed, "test_effects.py"):
        VirtualTimeLoop.run(run())
