"""Foreign log lines become a level and a text."""

from __future__ import annotations

import pytest

from holdfast.local.log_lines import shorten


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            r'time="2026-01-01T00:00:00Z" level=warning msg="said \"no\"" app_id=a scope=dapr.runtime ver=1.18.2',
            ("warn", 'said "no"'),
        ),
        ('time="…" level=fatal msg=gone app_id=a', ("error", "gone")),
        ('{"level":"error","ts":"…","msg":"lost","error":"context canceled"}', ("error", "lost: context canceled")),
        ('{"level":"info","msg":"ready"}', ("info", "ready")),
        ('{"level": broken', ("info", '{"level": broken')),
        ("2026-01-01 00:00:00.617 UTC [12999] LOG:  ready to accept", ("info", "ready to accept")),
        ('2026-01-01 00:00:00.617 UTC [7] FATAL:  role "x" does not exist', ("error", 'role "x" does not exist')),
        ("Traceback (most recent call last):", ("info", "Traceback (most recent call last):")),
        ("", ("info", "")),
    ],
)
def test_shorten(line: str, expected: tuple[str, str]) -> None:
    assert shorten(line) == expected
