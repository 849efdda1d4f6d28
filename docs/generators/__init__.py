"""Reference pages made from the code, while the site is built.

A page in ``docs/reference`` names what belongs to it in a comment: ``<!-- generated: errors -->``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sphinx.errors import ExtensionError

from generators import commands, configuration, errors, metrics, rest

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGES = {
    "commands": commands.page,
    "configuration": configuration.page,
    "errors": errors.page,
    "metrics": metrics.page,
    "rest": rest.page,
}
_PLACE = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _fill_in)
    app.connect("env-get-outdated", _outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _fill_in(app: Sphinx, document: str, source: list[str]) -> None:
    def page(place: re.Match[str]) -> str:
        if place[1] not in PAGES:
            raise ExtensionError(f"{document}: there is nothing to generate for {place[1]}.")
        return PAGES[place[1]]()

    source[0] = _PLACE.sub(page, source[0])


def _outdated(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Returns the pages that depend on the code, which Sphinx does not see change."""
    return [name for name in env.found_docs if name.startswith("docs/reference/")]
