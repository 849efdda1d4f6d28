"""`python -m holdfast` is the command `holdfast`."""

from __future__ import annotations

from holdfast.cli.main import main

main()
