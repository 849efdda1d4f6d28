"""Errors in Spark are reported in one sentence."""

from __future__ import annotations

import pytest

from holdfast.errors import ComponentFailed
from holdfast.spark.errors import in_one_sentence


def test_a_java_process_that_is_gone_says_what_may_help() -> None:
    with (
        pytest.raises(ComponentFailed, match=r"ended unexpectedly\. .* SPARK_DRIVER_MEMORY"),
        in_one_sentence(),
    ):
        raise ConnectionRefusedError(111, "Connection refused")
