"""Seeds: new ones for every run, told when a check fails, and played again with ``HOLDFAST_SEED``."""

from __future__ import annotations

import os
import random
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "HOLDFAST_SEED"

#: What one seed stands for; played again, it is the same run only with the same number.
OPERATIONS_PER_SEED = 1000


def fresh_seeds(operations: int) -> list[int]:
    """Enough seeds for so many operations; the one that is asked for, and no other, when one is."""
    wanted = os.environ.get(VARIABLE)
    if wanted:
        return [int(wanted)]
    first = secrets.randbits(32)
    return [first + number for number in range(-(-operations // OPERATIONS_PER_SEED))]


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Inside, random pauses and names of the code under test come from the seed, too."""
    state = random.getstate()
    random.seed(seed)
    tokens = random.Random(seed)
    with patch.object(secrets, "token_hex", lambda size=32: f"{tokens.getrandbits(8 * size):0{2 * size}x}"):
        try:
            yield
        finally:
            random.setstate(state)


@contextmanager
def noting_seed(seed: int, test: str) -> Iterator[None]:
    """Says with which seed something failed, and how to see it again."""
    try:
        yield
    except Exception as error:
        error.add_note(f"To see this again: {VARIABLE}={seed} pytest tests/properties/{test}")
        raise
