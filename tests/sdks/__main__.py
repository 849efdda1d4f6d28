"""`python -m tests.sdks`: gets what the clients of `examples/clients` need, and builds them."""

from __future__ import annotations

import sys

from holdfast.errors import ComponentMissing
from tests.sdks import golang, java, javascript


def main() -> None:
    try:
        node, _ = javascript.ensure()
        go, _ = golang.ensure()
        jdk, _ = java.ensure()
    except ComponentMissing as error:
        sys.exit(str(error))
    for name, version, place in (
        ("node", node.version, node.program),
        ("go", go.version, go.program),
        ("jdk", jdk.version, jdk.home),
    ):
        print(f"{name:<11}{version:<15} {place}")


if __name__ == "__main__":
    main()
