"""CallBatcher: batched calls, piggybacked calls, and the calls that an actor takes during an open session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import InvalidRequest, SaveFailed
from holdfast.runtime import batching
from holdfast.runtime.batching import CallBatcher, serve_session
from holdfast.runtime.dapr_sdk import JsonSerializer
from holdfast.runtime.serialization import dump
from holdfast.runtime.simulated import VirtualTimeLoop

ECHO = "Echo"


class Echo:
    """A host of one actor in this process, whose turns take a while."""

    def __init__(self) -> None:
        self.turns: list[list[str]] = []
        self.calls = 0
        self.under_way = 0
        self.broken_off = 0
        self.breaks_off = False
        self.fails = False
        self.moves = False
        self.seconds = 1.0

    def holds(self) -> bool:
        return not self.moves

    async def invoke_method(self, actor_type: str, actor_id: str, method: str, data: bytes) -> bytes:
        assert (actor_type, actor_id, method) == (ECHO, "e", "Batch")
        self.calls += 1
        self.under_way += 1
        try:
            # As through daprd: a caller that is cancelled ends the call; the turn goes on.
            read = JsonSerializer().deserialize(data)
            served = asyncio.ensure_future(serve_session(self, ECHO, "e", read, self._turn))  # type: ignore[arg-type]
            answer = await asyncio.shield(served)
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        finally:
            self.under_way -= 1
        if self.breaks_off:
            raise SaveFailed("The connection broke.")
        return dump(answer)

    async def _turn(self, calls: list[tuple[str, Any]]) -> dict[str, Any]:
        self.turns.append([method for method, _ in calls])
        await asyncio.sleep(self.seconds)
        if self.fails:
            raise SaveFailed
        return {"replies": [{"method": method, "data": data} for method, data in calls]}


def _play(body: Any) -> None:
    async def run() -> None:
        echo = Echo()
        await body(echo, CallBatcher(echo, ECHO))  # type: ignore[arg-type]

    VirtualTimeLoop.run(run())


@pytest.mark.parametrize("open_for_more", [True, False])
def test_a_call_that_cannot_be_read_fails_alone(open_for_more: bool) -> None:
    async def body(echo: Echo, batcher: CallBatcher) -> None:
        echo.moves = not open_for_more
        echo.seconds = 0.01
        broken = (b"{", b"[" * 198 + b"]" * 198 + b"]", b"[" * 300 + b"]" * 300)
        first = asyncio.ensure_future(batcher.call("e", "first", dump(0)))
        await asyncio.sleep(0)
        calls = [batcher.call("e", "call", data) for data in (dump(1), *broken, dump(2))]
        answers = await asyncio.gather(first, *calls, return_exceptions=True)
        assert [answer["data"] for answer in answers if isinstance(answer, dict)] == [0, 1, 2]
        refused = [answer for answer in answers if not isinstance(answer, dict)]
        assert [type(error) for error in refused] == [InvalidRequest] * len(broken)

    _play(body)


def test_calls_during_a_session_need_no_call_of_their_own() -> None:
    async def body(echo: Echo, batcher: CallBatcher) -> None:
        clock = asyncio.get_running_loop().time
        echo.seconds = 0.01
        began = clock()
        assert await batcher.call("e", "a", dump(1)) == {"method": "a", "data": 1}
        # Answered when its turn was over, not when the call was.
        assert clock() - began == pytest.approx(0.01)
        for number in range(5):
            assert await batcher.call("e", "b", dump(number)) == {"method": "b", "data": number}
        assert (len(echo.turns), echo.calls) == (6, 1)

    _play(body)


def test_an_actor_that_moves_takes_nothing_more() -> None:
    async def body(echo: Echo, batcher: CallBatcher) -> None:
        echo.seconds = 0.01
        await batcher.call("e", "a")
        echo.moves = True
        # Sent before the actor finds that it has moved.
        assert await batcher.call("e", "b") == {"method": "b", "data": None}
        assert await batcher.call("e", "c") == {"method": "c", "data": None}
        assert (echo.turns, echo.calls) == ([["a"], ["b"], ["c"]], 3)

    _play(body)


def test_an_actor_is_not_held_for_long() -> None:
    async def body(echo: Echo, batcher: CallBatcher) -> None:
        async def calls(after: float) -> None:
            await asyncio.sleep(after)
            for number in range(5):
                await batcher.call("e", str(number))

        # A call is always waiting, and each turn takes longer than a session may.
        await asyncio.gather(calls(0), calls(0.5))
        assert sum(map(len, echo.turns)) == 10
        assert echo.calls == len(echo.turns)
        await asyncio.sleep(60)
        assert batcher._waiting == {}
        assert batching._sessions == {}

    _play(body)


def test_a_piggybacked_call_goes_with_others_and_never_alone() -> None:
    async def body(echo: Echo, batcher: CallBatcher) -> None:
        popping = batcher.piggyback("e", "pop", dump(None))
        await asyncio.sleep(60)
        assert (echo.turns, popping.done()) == ([], False)
        await batcher.call("e", "push")
        assert await popping == {"method": "pop", "data": None}
        assert echo.turns == [["push", "pop"]]
        assert not batcher.cancel_piggyback("e", popping)
        popping = batcher.piggyback("e", "pop", dump(None))
        with pytest.raises(RuntimeError, match="already"):
            batcher.piggyback("e", "pop", dump(None))
        assert batcher.cancel_piggyback("e", popping)
        await batcher.call("e", "push")
        assert echo.turns[-1] == ["push"]

    _play(body)


def test_callers_in_a_call_that_breaks_off_get_its_error() -> None:
    async def body(echo: Echo, batcher: CallBatcher) -> None:
        echo.fails = True
        for _ in range(2):
            with pytest.raises(SaveFailed):
                await batcher.call("e", "a")
        echo.fails = False
        echo.breaks_off = True
        # The caller got its reply through the session before the call broke off.
        assert await batcher.call("e", "b") == {"method": "b", "data": None}
        echo.breaks_off = False
        assert await batcher.call("e", "c") == {"method": "c", "data": None}

    _play(body)


def test_an_actor_cannot_answer_the_calls_of_another() -> None:
    async def body(echo: Echo, batcher: CallBatcher) -> None:
        async def forged(calls: list[tuple[str, Any]]) -> dict[str, Any]:
            return {"replies": ["forged" for _ in calls]}

        asked = asyncio.create_task(batcher.call("e", "a"))
        await asyncio.sleep(0.5)
        [session] = batching._sessions
        calls = {"calls": [{"method": "a", "data": None}], "session": session}
        assert await serve_session(echo, ECHO, "another", calls, forged) == {"replies": ["forged"]}  # type: ignore[arg-type]
        assert await asked == {"method": "a", "data": None}
        for wrong in (None, [], {}, {"calls": 1}, {"calls": [1]}):
            with pytest.raises(InvalidRequest):
                await serve_session(echo, ECHO, "e", wrong, forged)  # type: ignore[arg-type]

    _play(body)


def test_a_session_waits_for_an_expected_call_and_no_longer() -> None:
    async def body(echo: Echo, batcher: CallBatcher) -> None:
        clock = asyncio.get_running_loop().time
        echo.seconds = 0.01
        await batcher.call("e", "a")
        with batcher.expecting("e"):
            await asyncio.sleep(0.15)  # longer than a session waits for a call that is not expected
            await batcher.call("e", "b")
        await batcher.call("e", "c")
        assert (echo.turns, echo.calls) == ([["a"], ["b"], ["c"]], 1)
        with batcher.expecting("e"):
            await asyncio.sleep(1.0)
        # The session is over: other processes can call the actor.
        began = clock()
        await batcher.call("e", "d")
        assert (echo.turns[-1], echo.calls) == (["d"], 2)
        assert clock() - began == pytest.approx(0.01)

    _play(body)


def test_a_session_ends_when_an_expected_call_does_not_come() -> None:
    async def body(echo: Echo, batcher: CallBatcher) -> None:
        echo.seconds = 0.01
        await batcher.call("e", "a")
        with batcher.expecting("e"):
            await asyncio.sleep(0.1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await batcher.call("e", "b")
        assert (echo.turns, echo.calls) == ([["a"], ["b"]], 2)

    _play(body)


def test_a_call_that_was_answered_is_broken_off_when_its_actor_is_taken_away() -> None:
    """Otherwise daprd would repeat the call in the actor's new process."""

    async def body(echo: Echo, batcher: CallBatcher) -> None:
        echo.seconds = 0.01
        with batcher.expecting("e"):
            assert await batcher.call("e", "a") == {"method": "a", "data": None}
            assert echo.under_way == 1
            echo.moves = True
            await asyncio.sleep(0.5)
        assert (echo.under_way, echo.broken_off, echo.calls) == (0, 1, 1)
        echo.moves = False
        assert await batcher.call("e", "b") == {"method": "b", "data": None}

    _play(body)


async def test_more_calls_than_travel_together_are_refused() -> None:
    async def turn(calls: list[tuple[str, Any]]) -> dict[str, Any]:
        return {"replies": [{}] * len(calls)}

    calls = [{"method": "Look", "data": None}] * (batching.MAX_CALLS + 1)
    assert len((await serve_session(Echo(), ECHO, "e", {"calls": calls}, turn))["replies"]) == len(calls)
    with pytest.raises(InvalidRequest, match="at most 201"):
        await serve_session(Echo(), ECHO, "e", {"calls": [*calls, calls[0]]}, turn)
