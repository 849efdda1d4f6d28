"""Where the checkout is that the tests belong to."""

from __future__ import annotations

from pathlib import Path

#: What lies beside `actors`, `tests` and `docs`. Processes find the tests from here as `tests.…`.
ROOT = Path(__file__).parents[2]
