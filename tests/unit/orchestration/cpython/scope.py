"""Which of CPython's tests are run inside orchestrations, and which of those cannot hold there, with the reasons."""

from __future__ import annotations

import re
import sys

_ASYNCIO = "test.test_asyncio.test_"

#: Modules, and classes in them. One that a version of Python does not have is passed over.
SCOPE: dict[str, str] = {
    f"{_ASYNCIO}tasks": (
        "CTask_CFuture_Tests CTask_CFuture_SubclassTests CoroutineGatherTests FutureGatherTests SleepTests"
    ),
    f"{_ASYNCIO}futures": "CFutureTests CSubFutureTests CFutureDoneCallbackTests CSubFutureDoneCallbackTests",
    f"{_ASYNCIO}futures2": "CFutureTests PyFutureTests",
    f"{_ASYNCIO}taskgroups": "TestTaskGroup TestEagerTaskTaskGroup",
    f"{_ASYNCIO}timeouts": "TimeoutTests",
    f"{_ASYNCIO}locks": "BarrierTests ConditionTests EventTests LockTests SemaphoreTests",
    f"{_ASYNCIO}queues": (
        "LifoQueueJoinTests LifoQueueTests PriorityQueueJoinTests PriorityQueueTests QueueBasicTests QueueGetTests "
        "QueueJoinTests QueuePutTests QueueShutdownTests LifoQueueShutdownTests PriorityQueueShutdownTests"
    ),
    f"{_ASYNCIO}waitfor": "AsyncioWaitForTest WaitForShieldTests",
    f"{_ASYNCIO}streams": "StreamTests",
    f"{_ASYNCIO}context": "DecimalContextTest",
    "test.test_asyncgen": "AsyncGenAsyncioTest",
}

#: Reasons, and what the names of the tests match.
EXCEPTIONS: dict[str, str] = {
    "makes a second loop, and a process has one orchestration's loop at a time": (
        r"\.test_(ensure_future_error_msg|ensure_future_future|ensure_future_task|other_loop_future"
        r"|constructor_heterogenous_futures)$"
    ),
    "replaces parts of the loop that an orchestration's does not have": (
        r"\.test_(error_in_call_soon|issue46672|stop_while_run_in_complete|subclasses_ctask_cfuture)$"
    ),
    "needs the debug mode, which measures real seconds": (
        r"\.test_(task_source_traceback|future_source_traceback|future_repr)$"
    ),
    "needs an exception handler of its own, or what is logged by it": (
        r"\.test_(log_destroyed_pending_task|future_exception_never_retrieved(_debug)?"
        r"|tb_logger_exception_unretrieved|(handle|task)_exc_handler_correct_context)$"
    ),
    "ends the loop with SystemExit, which ends an orchestration": r"\.test_baseexception_during_cancel$",
    "keeps coroutines in a set, whose order is that of their addresses": r"\.test_as_completed_reverse_wait$",
    "takes its delays from random or a real clock, which differ in a replay": (
        r"\.test_(context_3|asyncio_wait_for_cancelled|asyncio_wait_for_timeout)$"
    ),
    "makes a hundred thousand objects, which takes longer than all others": r"\.test_(task|future)_del_collect$",
    "wraps a thread's future": r"\.test_wrap_future_use_running_loop$",
    "needs a connection, a server, a pipe or an exception handler": (
        r"StreamTests\.test_(async_writer_api\w*|drain_raises|eof_feed_when_closing_writer|loop_is_closed_\w+"
        r"|open_\w+|read_all_from_pipe_reader|start_\w+|unclosed_\w+|unhandled_\w+|wait_closed_\w+)$"
    ),
}
if sys.version_info >= (3, 13):
    EXCEPTIONS["makes a second loop, whose time begins at 0 again"] = r"\.test_as_completed(_with_timeout)?$"
    EXCEPTIONS["runs the loop from inside of it"] = r"\.test_coro_closed_when_tg_closed$"


def reason_against(name: str) -> str | None:
    return next((reason for reason, names in EXCEPTIONS.items() if re.search(names, name)), None)
