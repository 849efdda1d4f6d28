"""Where the checkout is that the tests belong to."""

from __future__ import annotations

import os
from pathlib import Path

#: What lies beside `actors`, `tests` and `docs`. Processes find the tests from here as `tests.…`.
ROOT = Path(__file__).parents[2]

#: What other processes search for modules: the code beside these tests first, whatever is installed.
MODULE_PATH = os.pathsep.join([str(ROOT / "actors"), str(ROOT)])
