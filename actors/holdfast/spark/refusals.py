"""Errors of the data source, which are Holdfast's own.

They are looked up when they are raised: with them comes Dapr's SDK, which takes half a second to import, and Spark
starts two Python processes for every load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.errors import InvalidRequest, Unavailable


def invalid(sentence: str) -> InvalidRequest:
    from holdfast.errors import InvalidRequest

    return InvalidRequest(sentence)


def unavailable(sentence: str) -> Unavailable:
    from holdfast.errors import Unavailable

    return Unavailable(sentence)
