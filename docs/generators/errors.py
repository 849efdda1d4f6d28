"""The errors, from the class hierarchy."""

from __future__ import annotations

import inspect
from itertools import groupby

from generators.tables import code, prose, table
from holdfast import errors
from holdfast.cli.session import exit_code


def page() -> str:
    classes = list({found for _, found in inspect.getmembers(errors, inspect.isclass) if _is_ours(found)})
    # Several classes may share a code; the most general one has the meaning.
    classes.sort(key=lambda one: (one.status, one.code, len(one.__mro__), one.__name__))
    rows = []
    for _, group in groupby(classes, key=lambda one: (one.status, one.code)):
        same = list(group)
        meaning = prose(inspect.getdoc(same[0]) or "").partition("\n")[0]
        names = ", ".join(code(one.__name__) for one in same)
        retry = "yes" if same[0].retryable else ""
        rows.append((code(same[0].code), str(same[0].status), meaning, retry, str(exit_code(same[0]())), names))
    return table(("`error_code`", "status", "meaning", "repeat it", "exit code", "in `holdfast.errors`"), rows)


def _is_ours(found: type) -> bool:
    return issubclass(found, errors.HoldfastError) and found.__module__ == errors.__name__
