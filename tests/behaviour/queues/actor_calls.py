"""A program that calls queues as the SDK's documentation shows it: with its ``ActorProxy``.

Reads calls from standard input, a JSON list of queue, method and argument a line, and writes each answer as a line.
It is run apart from the tests: the SDK keeps its settings and its proxies' client for the whole process.
"""

from __future__ import annotations

import asyncio
import json
import sys

from dapr.actor import ActorId, ActorProxy

from holdfast.pushpop import PushPopActorInterface


async def main() -> None:
    for line in sys.stdin:
        queue, method, *arguments = json.loads(line)
        proxy = ActorProxy.create("PushPopActor", ActorId(queue), PushPopActorInterface)
        # The SDK reads what looks like a time as one.
        print(json.dumps(await getattr(proxy, method)(*arguments), default=str), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
