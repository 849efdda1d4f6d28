"""The quotas of instances and schedules: what was created counts once, before and after the index has it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import Capacity, Unavailable
from holdfast.gateway.quotas.creations import LISTED_WITHIN, Creations
from tests.support.simulated import ActorStage, on_simulated_host

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from dapr.actor import Actor

QUOTA = 3


class Stage(ActorStage):
    """The index of a tenant, and the quota that a gateway enforces on it. Only the clock is simulated."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: set[str] = set()
        self.counted = 0
        self.fails = False
        self.creations = Creations("things", {"acme": QUOTA}.get, self.count)

    def actors(self) -> Iterable[type[Actor]]:
        return ()

    async def count(self, tenant: str, names: Collection[str]) -> tuple[int, set[str]]:
        assert tenant == "acme"
        self.counted += 1
        await asyncio.sleep(0.01)
        if self.fails:
            raise Unavailable
        return len(self.listed), self.listed.intersection(names)

    async def create(self, name: str, *, tenant: str = "acme", exists: bool = False, is_new: bool = True) -> bool:
        """Returns False when it is refused."""

        async def found() -> bool:
            return exists

        try:
            async with self.creations.creating(tenant, name, found) as creation:
                creation.is_new = is_new
        except Capacity:
            return False
        return True


on_stage = on_simulated_host(Stage)


@on_stage
async def test_the_quota_is_exact_whether_the_index_has_the_new_ones_or_not(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        assert await stage.create(name)
    assert not await stage.create("d")
    stage.listed = {"a", "b"}
    await asyncio.sleep(2)
    assert not await stage.create("d")
    # A gone one makes room as soon as the index is counted again.
    stage.listed = {"a", "b", "c"}
    await asyncio.sleep(2)
    assert not await stage.create("d")
    stage.listed = {"b", "c"}
    await asyncio.sleep(2)
    assert await stage.create("d")
    assert not await stage.create("e")


@on_stage
async def test_what_exists_already_is_neither_refused_nor_counted(stage: Stage) -> None:
    stage.listed = {"a", "b", "c"}
    for _ in range(3):
        assert await stage.create("a", exists=True, is_new=False)
    assert not await stage.create("d")
    stage.listed = {"a", "b"}
    await asyncio.sleep(2)
    for name in ("a", "b", "a"):
        assert await stage.create(name, exists=True, is_new=False)
    assert await stage.create("d")


@on_stage
async def test_a_creation_that_failed_does_not_count(stage: Stage) -> None:
    async def found() -> bool:
        return False

    for _ in range(QUOTA + 1):
        with pytest.raises(ValueError, match="of no use"):
            async with stage.creations.creating("acme", "a", found):
                raise ValueError("of no use")
    for name in ("a", "b", "c"):
        assert await stage.create(name)


@on_stage
async def test_one_that_was_deleted_before_the_index_had_it_does_not_count(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        assert await stage.create(name)
    stage.creations.deleted("acme", "b")
    assert await stage.create("d")
    # Those that another process deleted count for a while.
    assert not await stage.create("e")
    await asyncio.sleep(LISTED_WITHIN + 2)
    assert await stage.create("e")


@on_stage
async def test_no_more_than_the_quota_are_created_at_once(stage: Stage) -> None:
    stage.listed = {"a"}
    created = await asyncio.gather(*(stage.create(f"new-{number}") for number in range(10)))
    assert sum(created) == QUOTA - 1


@on_stage
async def test_the_index_is_not_counted_for_each_creation_nor_for_tenants_without_a_quota(stage: Stage) -> None:
    for number in range(50):
        await stage.create(f"new-{number}")
        assert await stage.create(f"new-{number}", tenant="other")
    assert stage.counted == 1


@on_stage
async def test_nothing_is_counted_for_a_creation_that_could_not_be_checked(stage: Stage) -> None:
    stage.fails = True
    for _ in range(QUOTA + 1):
        with pytest.raises(Unavailable):
            await stage.create("a")
    stage.fails = False
    for name in ("a", "b", "c"):
        assert await stage.create(name)
