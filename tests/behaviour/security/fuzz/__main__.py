"""A long run: ``python -m tests.behaviour.security.fuzz [SECONDS] [SEED] [dapr]``, from the root of the checkout.

With ``dapr`` the server is beside a real daprd.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

from tests.behaviour.security.fuzz.run import run

DEFAULT_SECONDS = 300.0


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_SECONDS
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbits(32)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-fuzz-"))
    print(f"seed {seed}, {seconds:g} s, server and large requests in {folder}", flush=True)
    outcome = asyncio.run(run(folder, seed, seconds, with_dapr="dapr" in sys.argv[3:]))
    print(outcome.report())
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
