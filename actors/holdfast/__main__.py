"""The command `holdfast`, also as `python -m holdfast`."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from holdfast.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "holdfast":
            raise
        sys.exit(f"The command line and the server need more packages: pip install 'holdfast[server]' ({error}).")
    run()


if __name__ == "__main__":
    main()
