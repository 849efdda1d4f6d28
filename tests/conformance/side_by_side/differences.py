"""All differences between the embedded host and daprd 1.18 that are accepted, with their reasons.

``docs/dapr.md`` describes those that its readers meet. Every request that is compared and not named here has to get the
same answer from both.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """What the embedded host answers, and why it is not daprd's answer."""

    reason: str
    status: int
    code: str = ""
    message: str = ""


_OURS = "daprd looks for it under another name, and would not understand it there"
_WHOLE = "Go reads the first value and leaves the rest"

#: The actor API over HTTP: requests that daprd takes.
ACTOR_API = {
    "a method by GET": Difference(
        "browsers send a GET for an image on any page", 405, "ERR_METHOD_NOT_ALLOWED", "by POST or PUT"
    ),
    "something after the transaction": Difference(_WHOLE, 400, "ERR_MALFORMED_REQUEST"),
    "names in another case": Difference(
        "Go takes names in any case", 500, "ERR_ACTOR_STATE_TRANSACTION_SAVE", "request data is empty"
    ),
    "a method behind dots": Difference(
        "daprd resolves the dots, and calls Get", 500, "ERR_ACTOR_INVOKE_METHOD", "no method"
    ),
    "a failure policy that is a string": Difference(
        _OURS, 400, "ERR_MALFORMED_REQUEST", "failurePolicy is not an object"
    ),
    "a constant policy that is a number": Difference(_OURS, 400, "ERR_MALFORMED_REQUEST", "constant is not an object"),
    "an interval that is a number": Difference(_OURS, 400, "ERR_MALFORMED_REQUEST", "interval is not a string"),
    "an interval that is no time": Difference(
        _OURS, 500, "ERR_ACTOR_REMINDER_CREATE", "unsupported duration format: often"
    ),
    "retries that are a string": Difference(_OURS, 400, "ERR_MALFORMED_REQUEST", "maxRetries is not an integer"),
    "more retries than can be counted": Difference(_OURS, 400, "ERR_MALFORMED_REQUEST", "maxRetries is not an integer"),
    "a reminder without repetitions": Difference(
        "daprd's scheduler repeats it for ever", 500, "ERR_ACTOR_REMINDER_CREATE", "unsupported period format: R0/PT1H"
    ),
}

_KEPT = "daprd decodes the path of a method, so an encoded slash becomes a slash"
_TAKEN = "daprd refuses these characters in a method, also encoded; here they belong to their segment"

#: Service invocation over HTTP, by the path of the method.
INVOCATION = {
    "queue/a%2Fb": Difference(_KEPT, 400, "INVALID_REQUEST"),
    "idempotency/default/a%2Fb": Difference(_KEPT, 404, "NOT_FOUND", "There is no record of this key."),
    "idempotency/default/%C3%A9%3F%23": Difference(_TAKEN, 404, "NOT_FOUND", "There is no record of this key."),
    "a%3Fb": Difference(_TAKEN, 404, "NOT_FOUND"),
    "a%23b": Difference(_TAKEN, 404, "NOT_FOUND"),
    "a%01b": Difference(_TAKEN, 404, "NOT_FOUND"),
    "dapr/config": Difference("daprd's own calls to an app have no place where there is no daprd", 404, "NOT_FOUND"),
}
