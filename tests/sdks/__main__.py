"""`python -m tests.sdks`: gets what the clients of `examples/clients` need, and builds them."""

from __future__ import annotations

import sys

from holdfast.errors import ComponentMissing
from tests.sdks import javascript


def main() -> None:
    try:
        node, _ = javascript.ensure()
    except ComponentMissing as error:
        sys.exit(str(error))
    print(f"{'node':<11}{node.version:<15} {node.program}")


if __name__ == "__main__":
    main()
