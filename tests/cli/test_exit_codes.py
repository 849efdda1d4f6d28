"""Every error of a server has an exit code that says which kind it is."""

from __future__ import annotations

import pytest

from holdfast import errors
from holdfast.cli.session import exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidRequest(), 2),
        (errors.SettingsError(), 2),
        (errors.LockNotFound(), 3),
        (errors.NotFound(), 3),
        (errors.InvalidLockId(), 3),
        (errors.LockExpired(), 3),
        (errors.QueueLocked(), 4),
        (errors.AlreadyInProgress(), 4),
        (errors.LeaseLost(), 1),
        (errors.ConnectionFailed(), 5),
        (errors.AnswerLost(), 6),
        (errors.Unavailable(), 6),
        (errors.PartitionUnavailable(), 6),
        (errors.Capacity(), 7),
        (errors.RateLimited(), 7),
        (errors.Conflict(), 1),
        (errors.NotLeased(), 1),
        (errors.Unauthorized(), 1),
        (errors.TooLarge(), 1),
        (errors.HoldfastError(), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes(error: errors.HoldfastError, code: int) -> None:
    assert exit_code(error) == code
