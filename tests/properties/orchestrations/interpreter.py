"""Interprets a program with ordinary asyncio, over a model or over an orchestration's context."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from tests.properties.orchestrations.programs import (
    Answer,
    Call,
    Event,
    Fail,
    Patched,
    Receive,
    SetTags,
    Several,
    Sleep,
    Wrapped,
)

if TYPE_CHECKING:
    from tests.properties.orchestrations.programs import Node


class World(Protocol):
    async def call(self, call: Call) -> str: ...
    async def event(self, name: str) -> str: ...
    async def receive(self) -> str: ...
    async def answer(self) -> str: ...
    def set_tag(self, key: str, value: str | None) -> None: ...
    def patched(self, name: str) -> bool: ...


class Boom(Exception):
    """The error of a failing node of a program."""


class Run:
    """A run of a program, with notes of its steps."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.notes: list[str] = []

    async def whole(self, body: Node) -> list[Any]:
        """The outcome, and the notes up to then."""
        try:
            outcome = await self.node(body)
        except Exception as error:
            outcome = ["raised", shape(error)]
        return [outcome, list(self.notes)]

    async def node(self, node: Node) -> Any:
        try:
            result = await self._node(node)
        except asyncio.CancelledError:
            self.notes.append(f"{node.label} cancelled")
            raise
        except Exception as error:
            self.notes.append(f"{node.label} raised {shape(error)}")
            raise
        self.notes.append(f"{node.label} done")
        return result

    async def _node(self, node: Node) -> Any:
        if isinstance(node, Call):
            return await self._world.call(node)
        if isinstance(node, Sleep):
            return await asyncio.sleep(node.seconds, node.label)
        if isinstance(node, Event):
            return await self._world.event(node.name)
        if isinstance(node, Receive):
            return await self._world.receive()
        if isinstance(node, Answer):
            return await self._world.answer()
        if isinstance(node, Fail):
            raise Boom(node.label)
        if isinstance(node, SetTags):
            return self._world.set_tag(node.key, node.value)
        if isinstance(node, Patched):
            return await self.node(node.new if self._world.patched(node.label) else node.old)
        if isinstance(node, Several):
            return await self._several(node)
        if isinstance(node, Wrapped):
            return await self._wrapped(node)
        assert_never(node)

    async def _several(self, node: Several) -> Any:
        parts = node.parts
        match node.kind:
            case "sequence":
                return [await self.node(part) for part in parts]
            case "gather":
                return list(await asyncio.gather(*(self.node(part) for part in parts)))
            case "settle":
                results = await asyncio.gather(*(self.node(part) for part in parts), return_exceptions=True)
                return [shape(result) if isinstance(result, BaseException) else result for result in results]
            case "group":
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self.node(part)) for part in parts]
                return [task.result() for task in tasks]
            case "race":
                tasks = [asyncio.create_task(self.node(part)) for part in parts]
                try:
                    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in tasks:
                        task.cancel()
                return [tasks.index(task) for task in tasks if task in done] + [len(pending)]
            case "completed":
                results = []
                for following in asyncio.as_completed([self.node(part) for part in parts]):
                    try:
                        results.append(await following)
                    except Exception as error:
                        results.append(shape(error))
                return results
            case "limited":
                semaphore = asyncio.Semaphore(2)

                async def limited(part: Node) -> Any:
                    async with semaphore:
                        return await self.node(part)

                return list(await asyncio.gather(*map(limited, parts)))
            case "queue":
                return await self._queue(node)
            case other:
                raise AssertionError(other)

    async def _queue(self, node: Several) -> Any:
        queue: asyncio.Queue[Node] = asyncio.Queue(maxsize=1)
        results: list[Any] = []

        async def worker() -> None:
            while True:
                part = await queue.get()
                try:
                    results.append(await self.node(part))
                except Exception as error:
                    results.append(shape(error))
                finally:
                    queue.task_done()

        workers = [asyncio.create_task(worker()) for _ in range(2)]
        try:
            for part in node.parts:
                await queue.put(part)
            await queue.join()
        finally:
            for task in workers:
                task.cancel()
        return results

    async def _wrapped(self, node: Wrapped) -> Any:
        part = self.node(node.part)
        match node.kind:
            case "timeout":
                try:
                    async with asyncio.timeout(node.seconds):
                        return await part
                except TimeoutError:
                    return "timed out"
            case "wait_for":
                return await asyncio.wait_for(part, node.seconds)
            case "caught":
                try:
                    return await part
                except Exception as error:
                    assert node.other is not None
                    return [shape(error), await self.node(node.other)]
            case "finally":
                try:
                    return await part
                finally:
                    assert node.other is not None
                    await self.node(node.other)
            case "shield":
                return await asyncio.shield(part)
            case "background":
                task = asyncio.create_task(part)
                await asyncio.sleep(node.seconds)
                return task.done()
            case "cancelled":
                task = asyncio.create_task(part)
                asyncio.get_running_loop().call_later(node.seconds, task.cancel)
                done, _ = await asyncio.wait([task])
                return shape(asyncio.CancelledError()) if task.cancelled() else len(done)
            case "refusing":
                try:
                    return await part
                except asyncio.CancelledError:
                    return "refused"
            case other:
                raise AssertionError(other)


def shape(error: BaseException) -> str:
    """The same for what is the same on every world; asyncio promises no order in groups."""
    if isinstance(error, BaseExceptionGroup):
        return f"group({', '.join(sorted(shape(inner) for inner in error.exceptions))})"
    if isinstance(error, Boom):
        return str(error)
    reason = getattr(error, "reason", None)
    return str(reason) if reason else type(error).__name__
