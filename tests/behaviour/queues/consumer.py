"""A program that consumes a queue until it is killed: ``python consumer.py PORT QUEUE CONSUMERS BATCH LOCK_SECONDS``.

It writes a line for every batch: first what it has processed, then, once that was acknowledged, that it was. It needs
nothing but the standard library, so that many can be started quickly.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
from typing import Any


def call(connection: http.client.HTTPConnection, path: str, body: Any = None) -> tuple[int, Any]:
    connection.request("POST", path, body and json.dumps(body))
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def tell(what: str, items: list[int]) -> None:
    # In one piece, or not at all.
    os.write(1, json.dumps([what, items]).encode() + b"\n")


def consume(port: int, queue: str, batch: int, lock_seconds: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    pop = f"/queue/{queue}/pop?require_ack=true&count={batch}&ttl_seconds={lock_seconds}&wait_seconds=20"
    while True:
        status, taken = call(connection, pop)
        if status != 200 or not taken["count"]:
            continue
        tell("processed", taken["items"])
        status, answer = call(connection, f"/queue/{queue}/acknowledge", {"lock_id": taken["lock_id"]})
        tell("acknowledged" if status == 200 else f"refused {answer['error_code']}", taken["items"])


def main(port: str, queue: str, consumers: str, batch: str, lock_seconds: str) -> None:
    for _ in range(int(consumers)):
        arguments = (int(port), queue, int(batch), int(lock_seconds))
        threading.Thread(target=consume, args=arguments, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
