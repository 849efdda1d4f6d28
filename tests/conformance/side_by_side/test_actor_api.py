"""Broken and hostile requests to the actor API: the embedded host answers as daprd itself does, side by side.

What is compared with is the daprd that runs beside it. Where Holdfast knowingly differs, the difference is in
``differences.py`` with its reason, and tested too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.conformance.side_by_side.differences import ACTOR_API
from tests.support.stacks.served import encoded

if TYPE_CHECKING:
    from tests.support.stacks.served import ServedStack

pytestmark = pytest.mark.xdist_group("daprd-sqlite")

MEBIBYTE = 1024 * 1024


class Request(NamedTuple):
    verb: str
    path: str
    body: bytes | None = None


class Answer(NamedTuple):
    status: int
    code: str
    message: str


def upsert(request: Any) -> Request:
    body = [{"operation": "upsert", "request": request}]
    return Request("PUT", "Counter/api/state", json.dumps(body).encode())


def state(body: bytes | None) -> Request:
    return Request("PUT", "Counter/api/state", body)


def reminder(**fields: Any) -> Request:
    return Request("PUT", "Reminded/api/reminders/r", json.dumps(fields).encode())


def timer(**fields: Any) -> Request:
    return Request("PUT", "Timed/api/timers/t", json.dumps(fields).encode())


AN_HOUR = b'{"dueTime":"1h"}'

#: Status, code and every word of the message are the same.
THE_SAME = {
    "a method": Request("POST", "Counter/api/method/Get"),
    "a method by PUT": Request("PUT", "Counter/api/method/Get"),
    "a method by DELETE": Request("DELETE", "Counter/api/method/Get"),
    "a method by PATCH": Request("PATCH", "Counter/api/method/Get"),
    "a method by HEAD": Request("HEAD", "Counter/api/method/Get"),
    "a method by OPTIONS": Request("OPTIONS", "Counter/api/method/Get"),
    "a method and a slash": Request("POST", "Counter/api/method/Get/"),
    "a method with a query": Request("POST", "Counter/api/method/Get?a=b"),
    "an unknown method": Request("POST", "Counter/api/method/Nothing"),
    "an unknown type": Request("POST", "Nothing/api/method/Get"),
    "an argument that is not JSON": Request("POST", "Counter/api/method/Add", b"{"),
    "no argument where one is needed": Request("POST", "Counter/api/method/Add"),
    "an argument of the wrong type": Request("POST", "Counter/api/method/Add", b'"one"'),
    "a method with a NUL": Request("POST", "Counter/api/method/a%00b"),
    "a method with a line feed": Request("POST", "Counter/api/method/a%0Ab"),
    "a method with a question mark": Request("POST", "Counter/api/method/a%3Fb"),
    "a method with a hash": Request("POST", "Counter/api/method/a%23b"),
    "a type with a slash": Request("POST", "Coun%2Fter/api/method/Get"),
    "no path": Request("GET", ""),
    "a type only": Request("GET", "Counter"),
    "an actor only": Request("GET", "Counter/api"),
    "an actor to delete": Request("DELETE", "Counter/api"),
    "an unknown path": Request("GET", "Counter/api/nonsense"),
    "an unknown longer path": Request("PUT", "Counter/api/nonsense/x"),
    "a path too long": Request("POST", "Counter/api/method/Get/more"),
    "no method": Request("POST", "Counter/api/method"),
    "no method after the slash": Request("POST", "Counter/api/method/"),
    "no id": Request("POST", "Counter//method/Get"),
    "no type": Request("POST", "/api/method/Get"),
    "dots for an id": Request("POST", "Counter/../method/Get"),
    "a dot for an id": Request("POST", "Counter/./method/Get"),
    "dots for a method": Request("POST", "Counter/api/method/.."),
    "state": Request("GET", "Counter/api/state/count"),
    "state that is not there": Request("GET", "Counter/api/state/nothing"),
    "state of an actor that never was": Request("GET", "Counter/never/state/count"),
    "state of an unknown type": Request("GET", "Nothing/api/state/count"),
    "state to delete": Request("DELETE", "Counter/api/state"),
    "state without a key": Request("GET", "Counter/api/state"),
    "state to patch": Request("PATCH", "Counter/api/state", b"[]"),
    "state to post by key": Request("POST", "Counter/api/state/count", b"1"),
    "an empty transaction": state(b"[]"),
    "a transaction by POST": Request("POST", "Counter/api/state", b"[]"),
    "a transaction that is null": state(b"null"),
    "a transaction of an actor that is not active": Request("PUT", "Counter/never/state", b"[]"),
    "a transaction of an unknown type": Request("PUT", "Nothing/api/state", b"[]"),
    "an operation that is null": state(b"[null]"),
    "an operation that is empty": state(b"[{}]"),
    "an operation without a request": state(b'[{"operation":"upsert"}]'),
    "an operation without a name": state(b'[{"request":{"key":"a"}}]'),
    "an unknown operation": state(b'[{"operation":"explode","request":{"key":"a"}}]'),
    "an upsert without a key": upsert({"value": 1}),
    "an upsert of an empty key": upsert({"key": "", "value": 1}),
    "a delete without a key": state(b'[{"operation":"delete","request":{}}]'),
    "an upsert without a value": upsert({"key": "nothing-put"}),
    "an upsert with an etag": upsert({"key": "tagged", "value": 1, "etag": "1"}),
    "a delete with an etag": state(b'[{"operation":"delete","request":{"key":"tagged","etag":"1"}}]'),
    "an upsert with an empty etag": upsert({"key": "tagged", "value": 1, "etag": ""}),
    "an upsert with a time to live": upsert({"key": "ttl", "value": 1, "metadata": {"ttlInSeconds": "100"}}),
    "unknown fields": upsert({"key": "unknown", "value": 1, "more": 2}),
    "a reminder": reminder(dueTime="1h", data={"a": [1]}),
    "a reminder by POST": Request("POST", "Reminded/api/reminders/posted", AN_HOUR),
    "a reminder to patch": Request("PATCH", "Reminded/api/reminders/r", AN_HOUR),
    "a reminder that is not there": Request("GET", "Reminded/api/reminders/nothing"),
    "a reminder to delete that is not there": Request("DELETE", "Reminded/api/reminders/nothing"),
    "a reminder of an unknown type": Request("PUT", "Nothing/api/reminders/r", AN_HOUR),
    "a reminder to get of an unknown type": Request("GET", "Nothing/api/reminders/r"),
    "a reminder to delete of an unknown type": Request("DELETE", "Nothing/api/reminders/r"),
    "a reminder due before now": Request("PUT", "Reminded/api/reminders/past", b'{"dueTime":"-5s"}'),
    "a reminder due at a moment": reminder(dueTime="2099-01-01T00:00:00Z"),
    "a reminder due in ISO's words": reminder(dueTime="P1DT1H"),
    "a reminder over soon after it is due": reminder(dueTime="1h", period="1h", ttl="1m"),
    "a reminder with a senseless period": reminder(dueTime="1h", period="often"),
    "a reminder with a period of days": reminder(dueTime="1h", period="P1D"),
    "a reminder with a period of months": reminder(dueTime="1h", period="P1M"),
    "a reminder with repetitions that are no number": reminder(dueTime="1h", period="R/PT1H"),
    "a reminder with a slash in its name": Request("PUT", "Reminded/api/reminders/a%2Fb", AN_HOUR),
    "a reminder with a backslash in its name": Request("PUT", "Reminded/api/reminders/a%5Cb", AN_HOUR),
    "a reminder named by dots": Request("PUT", "Reminded/api/reminders/%2E%2E", AN_HOUR),
    "a reminder with a NUL in its name": Request("PUT", "Reminded/api/reminders/a%00b", AN_HOUR),
    "a reminder with a control character": Request("PUT", "Reminded/api/reminders/a%1Fb", AN_HOUR),
    "a timer": timer(dueTime="1h", callback="tick"),
    "a timer by POST": Request("POST", "Timed/api/timers/posted", AN_HOUR),
    "a timer to get": Request("GET", "Timed/api/timers/t"),
    "a timer to delete": Request("DELETE", "Timed/api/timers/t"),
    "a timer to delete that is not there": Request("DELETE", "Timed/api/timers/nothing"),
    "a timer of an unknown type": Request("PUT", "Nothing/api/timers/t", AN_HOUR),
    "a timer to delete of an unknown type": Request("DELETE", "Nothing/api/timers/t"),
    "a timer with a senseless due time": timer(dueTime="soon"),
    "a timer due at a date": timer(dueTime="2024-01-01"),
    "a timer due with repetitions": timer(dueTime="R3/PT1H"),
    "a timer with a senseless period": timer(dueTime="1h", period="often"),
    "a timer without repetitions": timer(dueTime="1h", period="R0/PT1H"),
    "a timer with a senseless time to live": timer(dueTime="1h", ttl="short"),
    "a timer with a line feed in its name": Request("PUT", "Timed/api/timers/a%0Ab", AN_HOUR),
}

#: Status and code are the same; the rest of the message is Go's own.
THE_SAME_CODE = {
    "dots for a method, encoded": Request("POST", "Counter/api/method/%2E%2E"),
    "a method with a slash": Request("POST", "Counter/api/method/a%2Fb"),
    "a body too large": Request("POST", "Keeper/api/method/echo", b'"' + b"x" * (33 * MEBIBYTE) + b'"'),
    "no transaction": state(None),
    "half a transaction": state(b"["),
    "a transaction that is not JSON": state(b"not json"),
    "a transaction that is an object": state(b"{}"),
    "a transaction that is a string": state(b'"x"'),
    "an operation that is a number": state(b"[1]"),
    "an operation named by a number": state(b'[{"operation":1,"request":{"key":"a"}}]'),
    "a request that is a string": upsert("a"),
    "a request that is a list": upsert([1]),
    "a key that is a number": upsert({"key": 1, "value": 1}),
    "metadata that are a string": upsert({"key": "a", "value": 1, "metadata": "x"}),
    "an upsert with a senseless time to live": upsert({"key": "t", "value": 1, "metadata": {"ttlInSeconds": "soon"}}),
    "metadata with a number": upsert({"key": "a", "value": 1, "metadata": {"ttlInSeconds": 5}}),
    "an etag that is a number": upsert({"key": "a", "value": 1, "etag": 5}),
    "no reminder": Request("PUT", "Reminded/api/reminders/r"),
    "half a reminder": Request("PUT", "Reminded/api/reminders/r", b"{"),
    "a reminder that is not JSON": Request("PUT", "Reminded/api/reminders/r", b"hello"),
    "a reminder that is a list": Request("PUT", "Reminded/api/reminders/r", b"[]"),
    "a reminder without any time": reminder(),
    "a reminder due at a number": reminder(dueTime=5),
    "a reminder due at no time at all": reminder(dueTime="soon"),
    "a reminder due at a date": reminder(dueTime="2024-01-01"),
    "a reminder due with repetitions": reminder(dueTime="R3/PT1H"),
    "a reminder with a period that is a number": reminder(dueTime="1h", period=5),
    "a reminder with a time to live that is a number": reminder(dueTime="1h", period="1h", ttl=5),
    "a reminder with more repetitions than can be counted": reminder(dueTime="1h", period=f"R{10**20}/PT1H"),
    "a reminder due later than Go can say": reminder(dueTime=f"{10**20}s"),
    "a reminder with a senseless time to live": reminder(dueTime="1h", period="1h", ttl="short"),
    "a reminder already over": reminder(dueTime="1h", period="1h", ttl="2000-01-01T00:00:00Z"),
    "a reminder with a time to live but no period": reminder(dueTime="1h", ttl="2h"),
    "a reminder that overwrites or not": reminder(dueTime="1h", overwrite="perhaps"),
    "no timer": Request("PUT", "Timed/api/timers/t"),
    "half a timer": Request("PUT", "Timed/api/timers/t", b"{"),
    "a timer that is a list": Request("PUT", "Timed/api/timers/t", b"[]"),
    "a timer due at a number": timer(dueTime=5),
    "a timer called back by a number": timer(dueTime="1h", callback=5),
    "a timer with more repetitions than can be counted": timer(dueTime="1h", period=f"R{10**20}/PT1H"),
    "a timer already over": timer(dueTime="1h", ttl="2000-01-01T00:00:00Z"),
}

#: Requests that daprd takes, and the embedded host does not.
STRICTER = {
    "a method by GET": Request("GET", "Counter/api/method/Get"),
    "something after the transaction": state(b"[] rest"),
    "names in another case": state(b'[{"Operation":"upsert","Request":{"Key":"a"}}]'),
    "a method behind dots": Request("POST", "Counter/api/method/..%2F..%2FGet"),
    "a failure policy that is a string": reminder(dueTime="1h", failurePolicy="x"),
    "a constant policy that is a number": reminder(dueTime="1h", failurePolicy={"constant": 5}),
    "an interval that is a number": reminder(dueTime="1h", failurePolicy={"constant": {"interval": 5}}),
    "an interval that is no time": reminder(dueTime="1h", failurePolicy={"constant": {"interval": "often"}}),
    "retries that are a string": reminder(dueTime="1h", failurePolicy={"constant": {"maxRetries": "3"}}),
    "more retries than can be counted": reminder(dueTime="1h", failurePolicy={"constant": {"maxRetries": 10**20}}),
    "a reminder without repetitions": reminder(dueTime="1h", period="R0/PT1H"),
}

#: Ids that daprd refuses in a call, and takes for a key elsewhere.
REFUSED_IDS = ["..", ".", "a/b", "a\\b", "a\nb", "a\x00b", "a\x7fb", "a?b", "a#b"]
#: Ids that daprd takes everywhere; in a call the app beside it refuses them.
TAKEN_IDS = ["a||b", "a b", "é", "x" * 1001]


def ask(stack: ServedStack, request: Request) -> Answer:
    """The answer, when all actors that the requests name are active."""
    answers: list[tuple[int, bytes]] = []

    async def body() -> None:
        await stack.call("Counter", "api", "Get")
        await stack.call("Reminded", "api", "fired")
        await stack.call("Timed", "api", "ticks")
        answers.append(await stack.request(*request))

    stack.run(body())
    [(status, text)] = answers
    if status < 300:
        return Answer(status, "", text.decode())
    told = json.loads(text) if text else {"errorCode": "", "message": ""}
    assert set(told) == {"errorCode", "message"}
    return Answer(status, told["errorCode"], told["message"])


@pytest.mark.parametrize("name", THE_SAME)
def test_the_answer_is_the_same(sides: tuple[ServedStack, ServedStack], name: str) -> None:
    daprd, embedded = sides
    assert ask(embedded, THE_SAME[name]) == ask(daprd, THE_SAME[name])


@pytest.mark.parametrize("name", THE_SAME_CODE)
def test_the_status_and_code_are_the_same(sides: tuple[ServedStack, ServedStack], name: str) -> None:
    daprd, embedded = sides
    theirs, ours = ask(daprd, THE_SAME_CODE[name]), ask(embedded, THE_SAME_CODE[name])
    assert theirs.status >= 400
    assert (ours.status, ours.code) == (theirs.status, theirs.code)
    assert ours.message.partition(": ")[0] == theirs.message.partition(": ")[0]


@pytest.mark.parametrize("name", STRICTER)
def test_what_only_daprd_lets_through(sides: tuple[ServedStack, ServedStack], name: str) -> None:
    daprd, embedded = sides
    assert ask(daprd, STRICTER[name]).status < 300
    ours = ask(embedded, STRICTER[name])
    expected = ACTOR_API[name]
    assert (ours.status, ours.code) == (expected.status, expected.code)
    assert expected.message in ours.message


@pytest.mark.parametrize("actor_id", REFUSED_IDS, ids=ascii)
def test_an_id_that_daprd_refuses(sides: tuple[ServedStack, ServedStack], actor_id: str) -> None:
    daprd, embedded = sides
    call = Request("POST", f"Keeper/{encoded(actor_id)}/method/echo", b"1")
    answer = ask(daprd, call)
    assert (answer.status, answer.code) == (400, "ERR_BAD_REQUEST")
    assert ask(embedded, call) == answer
    refuses_everywhere(embedded, actor_id)


@pytest.mark.parametrize("actor_id", TAKEN_IDS, ids=lambda actor_id: ascii(actor_id)[:20])
def test_an_id_that_daprd_takes(sides: tuple[ServedStack, ServedStack], actor_id: str) -> None:
    daprd, embedded = sides
    call = Request("POST", f"Keeper/{encoded(actor_id)}/method/echo", b"1")
    answer = ask(daprd, call)
    assert (answer.status, answer.code) == (500, "ERR_ACTOR_INVOKE_METHOD")
    assert '"errorCode":"INVALID_REQUEST"' in answer.message
    ours = ask(embedded, call)
    assert (ours.status, ours.code) == (500, "ERR_ACTOR_INVOKE_METHOD")
    assert '"errorCode":"INVALID_REQUEST"' in ours.message
    refuses_everywhere(embedded, actor_id)


def refuses_everywhere(embedded: ServedStack, actor_id: str) -> None:
    """daprd would take it into its keys."""
    for request in (
        Request("GET", f"Keeper/{encoded(actor_id)}/state/key"),
        Request("PUT", f"Keeper/{encoded(actor_id)}/state", b'[{"operation":"delete","request":{"key":"a"}}]'),
        Request("PUT", f"Reminded/{encoded(actor_id)}/reminders/r", AN_HOUR),
        Request("GET", f"Reminded/{encoded(actor_id)}/reminders/r"),
        Request("DELETE", f"Reminded/{encoded(actor_id)}/reminders/r"),
        Request("PUT", f"Timed/{encoded(actor_id)}/timers/t", AN_HOUR),
        Request("DELETE", f"Timed/{encoded(actor_id)}/timers/t"),
    ):
        answer = ask(embedded, request)
        assert (answer.status, answer.code) == (400, "ERR_BAD_REQUEST"), request


def test_a_reminder_that_must_not_overwrite(sides: tuple[ServedStack, ServedStack]) -> None:
    daprd, embedded = sides
    first = Request("PUT", "Reminded/api/reminders/only", b'{"dueTime":"1h","overwrite":false}')
    assert ask(embedded, first) == ask(daprd, first) == Answer(204, "", "")
    answer = ask(daprd, first)
    assert (answer.status, answer.code) == (409, "ERR_ACTOR_REMINDER_ALREADY_EXISTS")
    assert ask(embedded, first) == answer
    delete = Request("DELETE", "Reminded/api/reminders/only")
    assert ask(embedded, delete) == ask(daprd, delete)
    assert ask(embedded, first) == ask(daprd, first) == Answer(204, "", "")


def test_a_reminder_is_shown_as_it_was_registered(sides: tuple[ServedStack, ServedStack]) -> None:
    put = Request("PUT", "Reminded/api/reminders/shown", b'{"dueTime":"1h","data":{"a":["2024-01-01",null]}}')
    get = Request("GET", "Reminded/api/reminders/shown")
    shown = []
    for stack in sides:
        assert ask(stack, put).status == 204
        answer = ask(stack, get)
        assert answer.status == 200
        shown.append(json.loads(answer.message))
    assert shown[0] == shown[1]


def test_an_escape_that_is_none(sides: tuple[ServedStack, ServedStack]) -> None:
    """Go's own answer, without a body of daprd's."""
    statuses = []
    for stack in sides:

        async def body(stack: ServedStack = stack) -> None:
            statuses.append((await stack.request("POST", "Counter/api/method/a%zzb"))[0])

        stack.run(body())
    assert statuses == [400, 400]
