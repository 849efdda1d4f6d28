"""Limits of one step (how long code may run, and how much it may ask for, before it waits) and of unread mail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of an instance. One step lasts from an external event until every task waits."""

    #: Callbacks of the event loop; far more than a fan-out of a hundred thousand needs.
    callbacks: int = 1_000_000
    #: Processor time of the code.
    seconds: float = 2.0
    #: Elapsed time while the process ran, including the time the code blocked: time.sleep, a lock, a slow disk.
    blocked_seconds: float = 60.0
    #: Stored size of the step's commands, in the history and in the outbox. A step is saved in one transaction, and
    #: daprd, as Holdfast starts and deploys it, accepts requests up to 32 MiB.
    stored_bytes: int = 16 * 1024 * 1024
    #: Events in mailboxes that the code has not received, and requests that it has not answered; and the bytes of their
    #: data. They are in memory with the instance. The inbox of a BLOCKED instance has the same limits of its own.
    unread_mail: int = 10_000
    unread_bytes: int = 16 * 1024 * 1024


#: A turn processes no further message and fires no further timer once it has this much to save. With one more step at
#: its limit the turn still fits into one transaction.
TURN_BYTES = 4 * 1024 * 1024


DEFAULT_LIMITS = Limits()
