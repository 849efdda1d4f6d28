"""Becomes another program, after tying its life to the parent's and its rights to an account.

Run as a script, not imported: `python -I -S launch.py PARENT SIGNAL ACCOUNT PROGRAM [ARGUMENT ...]`.
A program of its own because code between fork and exec in a process with threads may deadlock.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522


def main(parent: int, death_signal: int, account: str, command: list[str]) -> None:
    if account != "-":
        _become(*(int(number) for number in account.split(":")))
    if sys.platform == "linux":
        # After the change of account, which clears it.
        _prctl(_PR_SET_PDEATHSIG, death_signal)
        if os.getppid() != parent:
            sys.exit("The process that asked for this one is gone.")
    os.execvp(command[0], command)  # noqa: S606


def _become(user: int, group: int) -> None:
    if sys.platform == "linux":
        _prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    if sys.platform == "linux":
        _keep_reach()


def _keep_reach() -> None:
    """Lets the account pass through folders that only root may enter, where data and venv often lie."""
    kept = 1 << _CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(kept, kept, kept, 0, 0, 0)
    # Where this right was taken away, the program runs without it and says itself what it cannot reach.
    if ctypes.CDLL(None).capset(header, effective_permitted_inheritable) == 0:
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE)


def _prctl(option: int, first: int, second: int = 0) -> None:
    as_long = [ctypes.c_ulong(number) for number in (first, second, 0, 0)]
    ctypes.CDLL(None).prctl(ctypes.c_int(option), *as_long)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
