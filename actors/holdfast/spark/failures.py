"""What Spark says at length, in one sentence."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from holdfast.errors import ComponentFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

# As a traceback of a Python worker ends.
_OURS = re.compile(r"holdfast\.errors\.\w+: (.+)")
_PYTHONS = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .+", re.MULTILINE)
_LONGEST = 400
_GONE = (
    "Spark's Java process has ended in the middle of it. It may have run out of memory: "
    "SPARK_DRIVER_MEMORY=4g in the environment gives it more."
)


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """An error of Spark's as one of ours; the reader's own sentence, if there is one in it."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise ComponentFailed(sentence(str(error))) from error
    except ConnectionError as error:
        raise ComponentFailed(_GONE) from error


def sentence(told: str) -> str:
    if ours := _OURS.findall(told):
        return str(ours[-1]).strip()
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    thrown = _PYTHONS.findall(told) if "Traceback" in told else []
    first = (causes[-1:] or thrown[-1:] or lines[:1] or ["Spark gave no reason."])[0]
    return f"Spark failed: {first[:_LONGEST]}"
