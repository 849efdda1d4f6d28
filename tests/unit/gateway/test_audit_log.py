"""The audit log has a line for what matters, and no more of them than one can read."""

from __future__ import annotations

import json
import logging

import pytest

from holdfast.errors import Forbidden, InvalidRequest, Unauthorized
from holdfast.gateway.auth.audit_log import MAX_REFUSALS, MAX_REFUSALS_OF_ALL, AuditLog
from holdfast.gateway.auth.principal import CALLER, Caller, Role
from holdfast.logs import set_up_logging

CALLED = Caller("acme", Role.USER, "billing", bound=True)


def scope(path: str = "/queue/orders/items") -> dict[str, object]:
    return {"method": "DELETE", "raw_path": path.encode(), "client": ("10.0.0.7", 1234), CALLER: CALLED}


def test_refusals_are_told_of_so_many_times_a_second(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    audit = AuditLog(lambda: now)
    for _ in range(1000):
        audit.refused(scope(), Forbidden())
    assert len(caplog.records) == MAX_REFUSALS
    now = 10.0
    audit.refused(scope(), Forbidden())
    audit.refused(scope(), Forbidden())
    assert f"({1000 - MAX_REFUSALS:g} earlier refusals were not logged)" in caplog.records[-2].getMessage()
    assert "earlier refusals" not in caplog.records[-1].getMessage()


def test_one_caller_does_not_hide_what_others_do(caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditLog(lambda: 0.0)
    other = Caller("acme", Role.USER, "shipping", bound=True)
    for _ in range(1000):
        audit.refused(scope(), Forbidden())
    caplog.clear()
    audit.refused(scope(), Forbidden())
    audit.refused(scope() | {CALLER: other}, Forbidden())
    audit.refused(scope(), InvalidRequest())
    assert [record.__dict__["fields"]["token"] for record in caplog.records] == ["shipping", "billing"]


def test_those_who_guess_from_many_addresses_hide_no_known_caller(caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditLog(lambda: 0.0)
    for number in range(1000):
        audit.refused_connection(f"10.0.{number // 250}.{number % 250}", Unauthorized(), "")
    assert len(caplog.records) == MAX_REFUSALS_OF_ALL
    audit.refused(scope(), Forbidden())
    assert "by billing of acme from 10.0.0.7" in caplog.records[-1].getMessage()


def test_words_that_may_repeat_what_was_sent_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditLog()
    audit.refused(scope(), InvalidRequest("Your payload is 'secret'."), with_message=False)
    assert "secret" not in caplog.text
    assert "400 INVALID_REQUEST" in caplog.text


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_line_is_a_line_whatever_it_is_about(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    root, level = logging.getLogger(), logging.getLogger().level
    handlers = root.handlers[:]
    try:
        set_up_logging(log_format, "info")
        logging.getLogger("holdfast.test").warning("a path: %s", "/a\n12:00:00 ERROR   made up\x1b[2J\u2028")
        AuditLog().acted(CALLED, "DELETE", "/queue/{queue}/items", {"queue": "a\nb c"}, 200)
        AuditLog().refused(scope("/queue/a\x1b[31m"), Forbidden())
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    lines = capsys.readouterr().err.rstrip("\n").split("\n")
    assert len(lines) == 3
    assert not any("\x1b" in line for line in lines)
    if log_format == "json":
        acted, refused = map(json.loads, lines[1:])
        assert acted["names"] == {"queue": "a%0Ab%20c"}
        assert (acted["token"], acted["tenant"], acted["status"]) == ("billing", "acme", 200)
        assert (refused["client"], refused["token"], refused["error_code"]) == ("10.0.0.7", "billing", "FORBIDDEN")
