"""Reduces Spark's long error messages to one sentence."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from holdfast.errors import ComponentFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

# The last line of a Python worker's traceback.
_OURS = re.compile(r"holdfast\.errors\.\w+: (.+)")
_PYTHONS = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .+", re.MULTILINE)
_LONGEST = 400
_GONE = (
    "Spark's Java process ended unexpectedly. It may have run out of memory: "
    "set SPARK_DRIVER_MEMORY=4g in the environment to give it more."
)


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Raises Spark's errors as ComponentFailed, with the sentence of the data source if the message has one."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise ComponentFailed(sentence(str(error))) from error
    except ConnectionError as error:
        raise ComponentFailed(_GONE) from error


def sentence(message: str) -> str:
    """Returns the sentence of the data source in a message of Spark, or else its cause."""
    if ours := _OURS.findall(message):
        return str(ours[-1]).strip()
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    thrown = _PYTHONS.findall(message) if "Traceback" in message else []
    first = (causes[-1:] or thrown[-1:] or lines[:1] or ["Spark gave no reason."])[0]
    return f"Spark failed: {first[:_LONGEST]}"
