"""Executes another program under an account, so that it ends when the parent process ends.

Run as a script, not imported: `python -I -S launch.py PARENT SIGNAL ACCOUNT PROGRAM [ARGUMENT ...]`.
A separate program, because code between fork and exec may deadlock in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_GET_SECUREBITS = 27
_PR_SET_SECUREBITS = 28
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_SECBIT_NO_SETUID_FIXUP = 4
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522


def main(parent: int, death_signal: int, account: str, command: list[str]) -> None:
    if account != "-":
        _become(*(int(number) for number in account.split(":")))
    if sys.platform == "linux":
        # Set after the change of account, which would clear it.
        _prctl(_PR_SET_PDEATHSIG, death_signal)
        if os.getppid() != parent:
            sys.exit("The parent process has ended.")
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}.")


def _become(user: int, group: int) -> None:
    if sys.platform == "linux":
        _prctl(_PR_SET_KEEPCAPS, 1)
        # Without this bit access(2), which PostgreSQL's tools call on their own programs, ignores capabilities of
        # every user but root. It must be set while the process is still root.
        _prctl(_PR_SET_SECUREBITS, _prctl(_PR_GET_SECUREBITS) | _SECBIT_NO_SETUID_FIXUP)
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    if sys.platform == "linux":
        _keep_reach()


def _keep_reach() -> None:
    """Keeps the right to enter root's folders, in which data and virtual environments often are."""
    if _set_capabilities(1 << _CAP_DAC_OVERRIDE):
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE)
    elif not _set_capabilities(0):
        # If root itself lacks this right, the program runs without it and reports files it cannot access. It must not
        # run with the other rights of root, which the change of account did not drop.
        sys.exit("The capabilities of root cannot be dropped.")


def _set_capabilities(kept: int) -> bool:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(kept, kept, kept, 0, 0, 0)
    return bool(ctypes.CDLL(None).capset(header, effective_permitted_inheritable) == 0)


def _prctl(option: int, first: int = 0, second: int = 0) -> int:
    as_long = [ctypes.c_ulong(number) for number in (first, second, 0, 0)]
    answer: int = ctypes.CDLL(None).prctl(ctypes.c_int(option), *as_long)
    return answer


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
