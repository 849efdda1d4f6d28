"""Child processes start, say what happened to them, and never outlive us."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from holdfast.errors import ComponentFailed
from holdfast.local import ChildProcess
from tests.support.waiting import eventually, is_gone, until_line

if TYPE_CHECKING:
    from pathlib import Path


def child(folder: Path, code: str, **options: Any) -> ChildProcess:
    return ChildProcess(
        "child", [sys.executable, "-u", "-c", textwrap.dedent(code)], log=folder / "child.log", **options
    )


FOREVER = "import time\nprint('up')\nwhile True: time.sleep(60)"
STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up')\nwhile True: time.sleep(60)"


async def test_output_of_every_start_is_in_the_log(tmp_path: Path) -> None:
    process = child(
        tmp_path, "import os, sys; print(os.environ['WORD']); sys.stderr.write('aside')", environment={"WORD": "one"}
    )
    for _ in range(2):
        await process.start()
        assert await process.wait() == 0
    assert process.logged() == "one\naside"
    assert process.log.read_text() == "one\nasideone\naside"


async def test_each_line_is_handed_on_however_long(tmp_path: Path) -> None:
    lines: list[str] = []
    process = child(tmp_path, "print('a' * 300_000); print(); print('end', end='')", on_line=lines.append)
    await process.start()
    assert await process.wait() == 0
    assert lines == ["a" * 300_000, "", "end"]
    assert process.log.read_text() == "\n".join(lines)


async def test_not_ready_because_it_ended_says_how_and_shows_the_log(tmp_path: Path) -> None:
    process = child(tmp_path, "print('the reason'); raise SystemExit(7)")
    await process.start()

    async def never() -> bool:
        return False

    with pytest.raises(ComponentFailed, match=r"(?s)child ended with exit code 7 before it was ready.*the reason"):
        await process.wait_ready(never)


async def test_not_ready_in_time_says_so(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    async with child(tmp_path, FOREVER) as process:
        with pytest.raises(ComponentFailed, match=r"child was not ready within 0\.1 s"):
            await process.wait_ready(never, timeout=0.1)


async def test_terminate_asks_first(tmp_path: Path) -> None:
    process = child(
        tmp_path,
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        print("up")
        while True: time.sleep(60)
        """,
    )
    await process.start()
    await until_line(process, "up")
    await process.terminate()
    assert process.ending() == "ended with exit code 5"
    assert not process.running


async def test_terminate_kills_what_does_not_listen(tmp_path: Path) -> None:
    process = child(tmp_path, STUBBORN)
    await process.start()
    await until_line(process, "up")
    await process.terminate(grace=0.2)
    assert process.ending() == "was ended by SIGKILL"


async def test_terminate_of_one_that_ended_a_moment_ago(tmp_path: Path) -> None:
    process = ChildProcess("short", ["/bin/sh", "-c", "exit 3"], log=tmp_path / "short.log")
    await process.start()
    # Without giving way to the event loop, so that it does not know yet, though Python 3.11 has waited for it in a
    # thread; later ones do so in the loop itself.
    deadline = time.monotonic() + 1.0
    while psutil.pid_exists(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)  # noqa: ASYNC251
    await process.terminate()
    assert process.ending() == "ended with exit code 3"


async def test_kill_takes_along_what_the_child_started(tmp_path: Path) -> None:
    process = child(
        tmp_path,
        f"""
        import subprocess, sys, time
        grandchild = subprocess.Popen([sys.executable, "-u", "-c", {STUBBORN!r}])
        sys.stdout.write(f"grandchild {{grandchild.pid}}\\n")
        while True: time.sleep(60)
        """,
        on_line=lambda line: None,
    )
    await process.start()
    grandchild = int((await until_line(process, r"grandchild (\d+)"))[1])
    await until_line(process, "up")
    assert not is_gone(grandchild)
    await process.kill()
    await eventually(lambda: is_gone(grandchild), what="the grandchild ends")


async def test_restart_gives_another_process(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER) as process:
        first = process.pid
        await process.restart()
        assert process.running
        assert process.pid != first
        assert is_gone(first)


async def test_starting_twice_is_refused(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER) as process:
        with pytest.raises(ComponentFailed, match="already running"):
            await process.start()


async def test_a_program_that_is_not_there_ends_at_once_and_says_so(tmp_path: Path) -> None:
    process = ChildProcess("ghost", [tmp_path / "ghost"], log=tmp_path / "ghost.log")
    await process.start()
    assert await process.wait() != 0
    assert "No such file" in process.log_tail()


# Only Linux tells children that their parent was killed.
@pytest.mark.parametrize("ending", [signal.SIGINT, *([signal.SIGKILL] if sys.platform == "linux" else [])])
async def test_children_end_with_us(tmp_path: Path, ending: signal.Signals) -> None:
    parent = child(
        tmp_path,
        f"""
        import asyncio, sys
        from pathlib import Path
        from holdfast.local import ChildProcess

        async def main():
            process = ChildProcess("c", [sys.executable, "-c", {STUBBORN!r}], log=Path({str(tmp_path / "c.log")!r}))
            await process.start()
            print("child", process.pid)
            await asyncio.sleep(600)

        asyncio.run(main())
        """,
    )
    await parent.start()
    pid = int((await until_line(parent, r"child (\d+)"))[1])
    os.kill(parent.pid, ending)
    async with asyncio.timeout(30):
        await parent.wait()
    await eventually(lambda: is_gone(pid), what="the child of the ended process ends")


async def test_many_at_once(tmp_path: Path) -> None:
    processes = [
        ChildProcess(f"c{number}", ["/bin/sh", "-c", f"exit {number}"], log=tmp_path / f"{number}.log")
        for number in range(8)
    ]
    await asyncio.gather(*(process.start() for process in processes))
    assert await asyncio.gather(*(process.wait() for process in processes)) == list(range(8))
