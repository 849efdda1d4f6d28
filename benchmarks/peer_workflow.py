"""The peer on Dapr: Dapr Workflow, five activities in a row, and one thousand side by side.

Run as a process of its own beside a daprd of its own. Takes a line of JSON at a time, ``{"seconds": …, "callers": …}``
or ``{"fan_out": …}``, and answers with how many workflows a second ended, or activities, and what one took.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Generator  # noqa: TC003 (the SDK reads it)
from typing import Any

from dapr.ext import workflow as wf

runtime = wf.WorkflowRuntime()


@runtime.activity(name="step")
def step(ctx: wf.WorkflowActivityContext, number: int) -> int:
    return number


@runtime.workflow(name="five")
def five(ctx: wf.DaprWorkflowContext, number: int) -> Generator[Any, Any, int]:
    for each in range(5):
        yield ctx.call_activity(step, input=each)
    return number


@runtime.workflow(name="fan")
def fan(ctx: wf.DaprWorkflowContext, number: int) -> Generator[Any, Any, int]:
    results = yield wf.when_all([ctx.call_activity(step, input=each) for each in range(number)])
    return len(results)


def run_one(client: wf.DaprWorkflowClient, workflow: Any, given: int, timeout: int = 60) -> float:
    began = time.perf_counter()
    instance_id = client.schedule_new_workflow(workflow, input=given)
    state = client.wait_for_workflow_completion(instance_id, timeout_in_seconds=timeout)
    if state is None or state.runtime_status.name != "COMPLETED":
        raise RuntimeError(f"a workflow ended as {state}")
    return time.perf_counter() - began


def measure(client: wf.DaprWorkflowClient, seconds: float, callers: int) -> dict[str, float]:
    taken: list[float] = []
    began = time.perf_counter()

    def caller() -> None:
        while time.perf_counter() - began < seconds:
            taken.append(run_one(client, five, 1))

    threads = [threading.Thread(target=caller) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"rate": len(taken) / (time.perf_counter() - began), "median": statistics.median(taken)}


def main() -> None:
    runtime.start()
    client = wf.DaprWorkflowClient()
    try:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            if "fan_out" in asked:
                seconds = run_one(client, fan, asked["fan_out"], timeout=600)
                answer = {"rate": asked["fan_out"] / seconds, "median": seconds}
            else:
                answer = measure(client, **asked)
            print(json.dumps(answer), flush=True)
    finally:
        runtime.shutdown()


if __name__ == "__main__":
    main()
