"""A program that calls actors as the SDK's documentation shows it, with nothing of Holdfast's.

It is run apart from the tests: the SDK keeps its settings and its proxies' client for the whole process.
"""

from __future__ import annotations

import asyncio
import json
import sys

from dapr.actor import ActorId, ActorInterface, ActorProxy, actormethod
from dapr.clients.exceptions import DaprInternalError


class CounterInterface(ActorInterface):
    @actormethod(name="Add")
    async def add(self, by: object) -> object: ...

    @actormethod(name="Get")
    async def get(self) -> object: ...


class KeeperInterface(ActorInterface):
    @actormethod(name="nothing")
    async def nothing(self) -> None: ...


async def main(actor_id: str) -> None:
    counter = ActorProxy.create("Counter", ActorId(actor_id), CounterInterface)
    keeper = ActorProxy.create("Keeper", ActorId(actor_id), KeeperInterface)
    answers = [await keeper.nothing(), await counter.Add(5), await counter.Get()]
    answers.append(json.loads(await counter.invoke_method("Add", b"2")))
    try:
        await ActorProxy.create("Faulty", ActorId(actor_id)).invoke_method("refuse", b'"NOT_FOUND"')
    except DaprInternalError as error:
        answers += [error.error_code, error.message]
    print(json.dumps(answers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
