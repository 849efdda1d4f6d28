"""Replays that make calls in another order or with other inputs: an answer goes to its own call or to none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_core import from_json

from holdfast import App
from holdfast.orchestration.core import matching
from holdfast.orchestration.core.failures import Failure
from holdfast.orchestration.core.instance import Blocked
from holdfast.orchestration.core.messages import Resume, Suspend
from holdfast.orchestration.status import Status
from tests.unit.orchestration.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Context

    Body = Callable[[Context, list[Any]], Any]

FRUIT = ["apple", "pear", "plum"]


class Order:
    """The items that the code iterates over: another process may have another order, or another form of them."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)


def driven(body: Body, order: Order, name: str = "test") -> Driver:
    app = App()

    @app.orchestration
    async def child(ctx: Context, given: Any = None) -> None: ...

    @app.orchestration
    async def orchestration(ctx: Context) -> Any:
        return await body(ctx, order.items)

    driver = Driver(app, name)
    driver.start("orchestration")
    return driver


def blocked(driver: Driver) -> dict[str, Any]:
    with pytest.raises(Blocked) as blocked:
        driver.rebuild()
    return blocked.value.reason


async def together(ctx: Context, items: list[Any]) -> dict[str, Any]:
    return dict(zip(map(str, items), await asyncio.gather(*(ctx.call("price", item) for item in items)), strict=True))


async def one_by_one(ctx: Context, items: list[Any]) -> dict[str, Any]:
    return {str(item): await ctx.call("price", item) for item in items}


async def sleeping(ctx: Context, items: list[Any]) -> list[Any]:
    woken: list[Any] = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    await asyncio.gather(*map(sleep, items))
    return woken


async def children(ctx: Context, items: list[Any]) -> dict[str, Any]:
    results = await asyncio.gather(*(ctx.sub("child", item) for item in items), return_exceptions=True)
    return {str(item): str(result) for item, result in zip(items, results, strict=True)}


async def detached(ctx: Context, items: list[Any]) -> dict[str, Any]:
    ids = {str(item): await ctx.sub("child", item, detached=True) for item in items}
    await ctx.event("go")
    return ids


def test_calls_of_one_step_may_come_in_another_order() -> None:
    order = Order(*FRUIT)
    driver = driven(together, order)
    seqs = {event.input: event.seq for event in driver.history if event.type == "ActivityScheduled"}
    order.items.reverse()
    driver.rebuild()
    for fruit in FRUIT:
        driver.complete(seqs[f'"{fruit}"'], f"price of {fruit}")
        order.items.reverse()
        driver.rebuild()
    assert driver.output == {fruit: f"price of {fruit}" for fruit in FRUIT}
    assert not driver.instance.accepted


def test_timers_of_one_step_may_come_in_another_order() -> None:
    order = Order(10, 20, 30)
    driver = driven(sleeping, order)
    order.items.reverse()
    driver.rebuild()
    begun = driver.now
    for seconds in (10, 20, 30):
        driver.wait()
        assert driver.now == begun + seconds
        if seconds < 30:
            driver.rebuild()
    assert driver.output == [10, 20, 30]


def test_another_kind_may_come_first() -> None:
    order = Order("call", "sleep")

    async def both(ctx: Context, items: list[Any]) -> list[Any]:
        work = {"call": lambda: ctx.call("work"), "sleep": lambda: asyncio.sleep(5, "slept")}
        return sorted(await asyncio.gather(*(work[item]() for item in items)))

    driver = driven(both, order)
    order.items.reverse()
    driver.rebuild()
    driver.complete(2, "worked")
    driver.wait()
    assert driver.output == ["slept", "worked"]


@pytest.mark.parametrize("name", ["test", "x" * 250], ids=["numbered", "random"])
def test_children_keep_their_ids_in_another_order(name: str) -> None:
    order = Order(*FRUIT)
    driver = driven(children, order, name)
    ids = {event.input: event.instance_id for event in driver.history if event.type == "SubOrchestrationScheduled"}
    seqs = {event.input: event.seq for event in driver.history if event.type == "SubOrchestrationScheduled"}
    order.items.reverse()
    driver.rebuild()
    for fruit in FRUIT:
        driver.fail_sub(seqs[f'"{fruit}"'], Failure(type="Sour", message=fruit))
    for fruit in FRUIT:
        assert ids[f'"{fruit}"'] in driver.output[fruit]
        assert fruit in driver.output[fruit]


def test_a_detached_child_has_its_recorded_id_in_another_order() -> None:
    order = Order(*FRUIT)
    driver = driven(detached, order)
    ids = {event.input: event.instance_id for event in driver.history if event.type == "SubOrchestrationScheduled"}
    order.items.reverse()
    driver.rebuild()
    driver.raise_event("go")
    assert driver.output == {fruit: ids[f'"{fruit}"'] for fruit in FRUIT}


def test_an_id_that_the_code_gives_tells_children_apart() -> None:
    order = Order(*FRUIT)

    async def named(ctx: Context, items: list[Any]) -> list[Any]:
        return await asyncio.gather(*(ctx.sub("child", instance_id=item) for item in items))

    driver = driven(named, order)
    order.items.reverse()
    driver.rebuild()
    for seq, fruit in enumerate(FRUIT, 2):
        driver.complete_sub(seq, None)
        assert driver.events[seq - 1].instance_id == fruit  # type: ignore[attr-defined]
    assert driver.output == [None] * 3


def test_a_fan_out_of_a_model_with_a_new_field_goes_on() -> None:
    old = [{"id": number, "lines": [{"sku": f"s{number}"}]} for number in range(50)]
    order = Order(*old)
    driver = driven(together, order)
    order.items = [{**item, "lines": [{**item["lines"][0], "gift": False}], "note": None} for item in reversed(old)]
    driver.rebuild()
    assert len(driver.instance.accepted) == 50
    for number in range(50):
        driver.complete(2 + number, number)
    assert driver.output == {str(item): item["id"] for item in order.items}


def test_a_field_that_is_gone_goes_on() -> None:
    order = Order({"id": 1, "old": True}, {"id": 2, "old": True})
    driver = driven(together, order)
    order.items = [{"id": 2}, {"id": 1}]
    driver.rebuild()
    driver.complete(2, "one")
    driver.complete(3, "two")
    assert driver.output == {"{'id': 1}": "one", "{'id': 2}": "two"}


def test_what_tells_them_apart_changed_its_name() -> None:
    order = Order({"kind": "x", "id": 1}, {"kind": "x", "id": 2})
    driver = driven(together, order)
    order.items = [{"kind": "x", "key": 2}, {"kind": "x", "key": 1}]
    reason = blocked(driver)
    assert reason["expected"] == 'event 2, ActivityScheduled (price) with input {"kind":"x","id":1}'
    assert reason["found"] == 'ActivityScheduled (price) with input {"kind":"x","key":2}'


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([{"id": 1}, {"id": 1}], [{"id": 1, "sku": "a"}, {"id": 1, "sku": "b"}]),
        ([{"id": 1, "sku": "a"}, {"id": 1, "sku": "b"}], [{"id": 1}, {"id": 1}]),
        ([{"o": {"x": "a"}}, {"o": {"x": "b"}}], [{"o": {"y": "c"}}, {"o": {"y": "c"}}]),
    ],
    ids=["a new field tells them apart", "a field that is gone told them apart", "no field in common"],
)
def test_calls_that_only_one_side_tells_apart_are_not_accepted(old: list[Any], new: list[Any], turned: bool) -> None:
    order = Order(*old)
    driver = driven(together, order)
    order.items = new[::-1] if turned else new
    assert blocked(driver)["kind"] == "non_determinism"


def test_one_input_that_changed_is_accepted() -> None:
    order = Order(*FRUIT)
    driver = driven(together, order)
    order.items = ["apple", "PEAR", "plum"]
    driver.rebuild()
    assert [event.seq for event in driver.instance.accepted] == [3]
    for seq in (2, 3, 4):
        driver.complete(seq, seq)
    assert driver.output == {"apple": 2, "PEAR": 3, "plum": 4}


def test_two_inputs_that_changed_are_not() -> None:
    order = Order(*FRUIT)
    driver = driven(together, order)
    order.items = ["APPLE", "PEAR", "plum"]
    reason = blocked(driver)
    assert (reason["expected"], reason["found"]) == (
        'event 2, ActivityScheduled (price) with input "apple"',
        'ActivityScheduled (price) with input "APPLE"',
    )
    assert "test_matching.py" in reason["line"]
    order.items = list(FRUIT)
    driver.rebuild()


@pytest.mark.parametrize("other", [["pear", "apple", "plum"], ["plum", "apple", "pear"], ["pear", "plum", "apple"]])
@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_loop_in_another_order_is_never_answered_wrongly(other: list[str], done: int) -> None:
    """With one call at a time, a result of another call is found at the latest when the code makes that call."""
    order = Order(*FRUIT)
    driver = driven(one_by_one, order)
    for number in range(done):
        driver.complete(2 + 2 * number, f"price of {FRUIT[number]}")
    order.items = other

    def go_on() -> None:
        driver.rebuild()
        for _ in range(3):
            driver.complete(driver.events[-1].seq, "another price")

    with pytest.raises(Blocked) as stopped:
        go_on()
    reason = stopped.value.reason
    assert reason["kind"] == "non_determinism"
    assert "with input" in reason["expected"]
    assert "with input" in reason["found"]


@pytest.mark.parametrize("currency", [{}, {"currency": "EUR"}], ids=["nothing in common", "something in common"])
@pytest.mark.parametrize("done", [0, 1])
def test_inputs_whose_keys_are_data_are_never_answered_wrongly(currency: dict[str, str], done: int) -> None:
    """The keys that only one side has may be what tells the calls apart."""
    baskets = [{**currency, "items": {fruit: 1}} for fruit in FRUIT]
    order = Order(*baskets)
    driver = driven(one_by_one, order)
    for number in range(done):
        driver.complete(2 + 2 * number, f"price of {FRUIT[number]}")
    order.items = baskets[::-1]

    def go_on() -> None:
        driver.rebuild()
        for _ in range(3):
            driver.complete(driver.events[-1].seq, "another price")

    with pytest.raises(Blocked):
        go_on()


def test_a_changed_input_in_a_loop_stays_accepted_when_the_new_one_is_recorded() -> None:
    order = Order("old", "old", "old")
    driver = driven(one_by_one, order)
    order.items = ["new", "new", "new"]
    driver.rebuild()
    for seq in (2, 4, 6):
        driver.complete(seq, seq)
        driver.rebuild()
    assert driver.output == {"new": 6}


def test_a_model_with_a_new_field_in_a_loop_stays_accepted() -> None:
    order = Order({"id": 1}, {"id": 1}, {"id": 1})
    driver = driven(one_by_one, order)
    order.items = [{"id": 1, "new": 0}] * 3
    driver.rebuild()
    for seq in (2, 4, 6):
        driver.complete(seq, seq)
        driver.rebuild()
    assert driver.output == {"{'id': 1, 'new': 0}": 6}


def test_text_that_is_written_in_another_way_is_the_same_input() -> None:
    order = Order({"a": 1, "b": 2}, {"a": 2, "b": 1})
    driver = driven(together, order)
    order.items = [{"b": 1, "a": 2}, {"b": 2, "a": 1}]
    driver.rebuild()
    assert not driver.instance.accepted
    driver.complete(2, "first")
    driver.complete(3, "second")
    assert driver.output == {"{'b': 1, 'a': 2}": "second", "{'b': 2, 'a': 1}": "first"}


def test_inputs_of_children_that_are_written_in_another_way_are_the_same() -> None:
    """The code gives these children no ids; replay matches the ids that Holdfast gave by the text of the input."""
    order = Order({"id": 1, "size": 2}, {"id": 1, "size": 2})
    driver = driven(children, order)
    order.items = [{"size": 2, "id": 1}, {"size": 2, "id": 1}]
    driver.rebuild()
    assert driver.status is Status.RUNNING


def test_true_is_not_one() -> None:
    order = Order(1, True)
    driver = driven(together, order)
    order.items.reverse()
    driver.rebuild()
    driver.complete(2, "one")
    driver.complete(3, "true")
    assert driver.output == {"1": "one", "True": "true"}


def test_what_was_held_while_suspended_is_matched_step_by_step() -> None:
    order = Order(*FRUIT)

    async def waves(ctx: Context, items: list[Any]) -> list[Any]:
        await ctx.event("one")
        first = ctx.call("price", "gate")
        await first
        return sorted(await asyncio.gather(*(ctx.call("price", item) for item in items)))

    driver = driven(waves, order)
    driver.raise_event("one")
    driver.deliver(Suspend())
    driver.complete(driver.events[-2].seq, None)
    driver.deliver(Resume())
    order.items.reverse()
    driver.rebuild()
    for event in list(driver.history):
        if event.type == "ActivityScheduled" and event.seq > 5:
            driver.complete(event.seq, event.input)  # type: ignore[attr-defined]
    assert driver.output == sorted(f'"{fruit}"' for fruit in FRUIT)


def test_a_large_fan_out_is_not_compared_each_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 2000
    order = Order(*({"id": number} for number in range(size)))
    driver = driven(together, order)
    read = 0

    def counted(value: Any) -> Any:
        nonlocal read
        read += 1
        return from_json(value)

    monkeypatch.setattr(matching, "from_json", counted)
    driver.rebuild()
    assert read == 0
    order.items.reverse()
    driver.rebuild()
    assert read == 0
    order.items = [{**item, "new": None} for item in order.items]
    driver.rebuild()
    assert 0 < read <= 10 * size
