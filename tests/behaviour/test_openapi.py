"""``/openapi.json`` says what is so: every answer to anything that is sent is one that it describes."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.behaviour import schemathesis_hooks as hooks
from tests.behaviour.stacks import EMBEDDED, on_every_stack, on_stacks
from tests.support.checkout import MODULE_PATH
from tests.support.rest import Queue
from tests.support.runs import start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.rest import Server

SEED = 20260228
#: For each call and each way of making them up: half a minute to a minute.
EXAMPLES = 20


@on_stacks(EMBEDDED)
async def test_no_answer_is_a_fault_or_undocumented(server: Server) -> None:
    full, locked, spread = [Queue(server, name) for name in (hooks.FULL, hooks.LOCKED, hooks.SPREAD)]
    (await spread.configure(partitions=3, max_locks=100)).ok()
    for queue in (full, locked, spread):
        (await queue.push_many(*range(500))).ok()
    for queue in (full, spread):
        (await queue.dead_letter((await queue.lock(count=50))["lock_id"])).ok()
        (await queue.push_many(*range(50), delay_seconds=100)).ok()
    for queue in (locked, spread):
        await queue.lock(count=100, ttl_seconds=300)
    for instance_id, orchestration in ((hooks.RUNNING, "waiting"), (hooks.ENDED, "echo")):
        assert (await start(server, orchestration, instance_id=instance_id)).status == 202
    paths = {"PYTHONPATH": MODULE_PATH, "SCHEMATHESIS_HOOKS": hooks.__name__}
    program = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("schemathesis"), "run", f"{server.url}/openapi.json"),
        *("--seed", str(SEED), "--max-examples", str(EXAMPLES), "--no-color", "--warnings", "off"),
        # A request that is valid in itself is refused for how things are: a queue is locked, an instance ended.
        *("--exclude-checks", "positive_data_acceptance"),
        cwd=server.stack.folder,
        env={**os.environ, **paths},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    assert program.returncode == 0, output.decode()


@on_every_stack
async def test_every_call_is_described_with_an_example_of_each_answer(server: Server) -> None:
    document = (await server.request("GET", "/openapi.json")).ok()
    described = {
        f"{verb.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for verb, operation in operations.items()
        if path.startswith(("/queue", "/orchestrations"))
    }
    queue, one = "/queue/{queue}", "/orchestrations/{instance_id}"
    assert described.keys() >= {
        *(f"POST {queue}/{call}" for call in ("push", "pop", "acknowledge", "abandon", "extend-lock", "dead-letter")),
        *(f"POST {queue}/{call}" for call in ("complete", "redrive", "dead-letters/delete", "work")),
        *(f"POST {queue}/in-flight/{{lock_id_prefix}}/{call}" for call in ("requeue", "extend")),
        *(f"GET {queue}{view}" for view in ("", "/peek", "/in-flight", "/dead-letters", "/config")),
        *(f"PUT {queue}/config", "GET /queues"),
        *(f"DELETE {queue}{what}" for what in ("", "/items", "/items/{id}")),
        *("POST /orchestrations/{name}/start", "GET /orchestrations", f"DELETE {one}"),
        *(f"GET {one}{view}" for view in ("", "/history", "/wait", "/requests/{request}")),
        *(f"POST {one}/{call}" for call in ("events/{event}", "requests/{request}", "cancel", "suspend", "resume")),
    }
    for name, operation in described.items():
        answers = operation["responses"]
        assert answers.keys() >= {"400", "405", "413", "503"}, name
        assert answers.keys() & {"200", "202"}, name
        for status, answer in answers.items():
            examples = answer["content"]["application/json"]["examples"]
            assert examples, (name, status)
            if status not in ("200", "202"):
                assert all(_is_flat(example["value"]) for example in examples.values())
        if "requestBody" in operation:
            assert "example" in operation["requestBody"]["content"]["application/json"]
    assert "423" in described[f"POST {queue}/pop"]["responses"]
    assert _codes(described[f"POST {queue}/push"], "429") >= {"CAPACITY", "RATE_LIMITED"}
    assert "Retry-After" in described[f"POST {queue}/push"]["responses"]["429"]["headers"]
    assert "NOT_LEASED" in _codes(described[f"POST {queue}/complete"], "400")
    assert "PARTITION_UNAVAILABLE" in _codes(described[f"POST {queue}/complete"], "503")
    assert described[f"DELETE {queue}/items/{{id}}"]["responses"].keys() >= {"404", "409"}
    for call in ("acknowledge", "abandon", "extend-lock", "dead-letter"):
        responses = described[f"POST {queue}/{call}"]["responses"]
        assert responses.keys() >= {"404", "410"}
        assert responses["400"]["content"]["application/json"]["examples"].keys() >= {
            "INVALID_REQUEST",
            "INVALID_LOCK_ID",
        }


@on_every_stack
async def test_every_reference_leads_somewhere(server: Server) -> None:
    document = (await server.request("GET", "/openapi.json")).ok()
    references = set(_references(document))
    assert len(references) > 20
    for reference in references:
        found = document
        for key in reference.removeprefix("#/").split("/"):
            assert key in found, reference
            found = found[key]


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _references(entry)


def _codes(operation: Any, status: str) -> set[str]:
    return set(operation["responses"][status]["content"]["application/json"]["examples"])


def _is_flat(body: dict[str, Any]) -> bool:
    return body.keys() >= {"success", "message", "error_code"} and body["success"] is False
