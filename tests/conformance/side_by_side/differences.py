"""All differences between the embedded host and daprd 1.18 that are accepted, with their reasons.

``docs/dapr.md`` describes the differences that its readers meet. Every request that is compared and not named here has
to get the same answer from both.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """The embedded host's answer, and the reason why it is not daprd's."""

    reason: str
    status: int
    code: str = ""
    message: str = ""


class GrpcDifference(NamedTuple):
    """The same for a call over gRPC."""

    reason: str
    code: str
    details: str = ""


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

#: How often daprd calls the actor of a failing reminder that a client registered without a failure policy, before it
#: gives the reminder up. The embedded host repeats it until it succeeds: work behind a lost reminder is never done.
ATTEMPTS_BY_DAPRD = 4

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

#: Paths below ``/v1.0`` of other building blocks, asked for by GET. There are none on the embedded host, which answers
#: as daprd does for a path that it does not know.
NOT_SERVED = (
    "state/statestore/key",
    "secrets/store/key",
    "configuration/store",
    "jobs/job",
    "workflows/dapr/instance",
)

#: The limits that the embedded host has for metadata of ``PUT /v1.0/metadata/{key}``, because anyone may add to it.
METADATA_KEY = 256
METADATA_VALUE = 4096

_IDS = "daprd takes any id into the keys of its store"
_NOT_SERVED = "the embedded host has no such building block"
_OTHER_WORDS = "the words are of Dapr's scheduler"

#: Calls over gRPC.
GRPC = {
    "a method without a name": GrpcDifference("the words are of the SDK", "INTERNAL", "there is no method"),
    "a method with a slash": GrpcDifference("the words are of the SDK", "INTERNAL", "there is no method a/b"),
    "a method behind dots": GrpcDifference("daprd resolves the dots, and calls Get", "INTERNAL", "there is no method"),
    "a method named by dots": GrpcDifference("daprd resolves the dots", "INTERNAL", "there is no method"),
    "an id with a space": GrpcDifference("the app beside daprd gets it encoded", "INTERNAL", "This actor id"),
    "an id with a bar": GrpcDifference("the app beside daprd gets it encoded", "INTERNAL", "This actor id"),
    "an id with an umlaut": GrpcDifference("the app beside daprd gets it encoded", "INTERNAL", "This actor id"),
    "an id with a percent sign": GrpcDifference("the app beside daprd gets it encoded", "INTERNAL", "This actor id"),
    "state of no actor": GrpcDifference(_IDS, "INVALID_ARGUMENT", "actorId"),
    "state of an actor without an id": GrpcDifference(_IDS, "INVALID_ARGUMENT", "actorId"),
    "state of an id with a slash": GrpcDifference(_IDS, "INVALID_ARGUMENT", "actorId"),
    "state of an id with bars": GrpcDifference(_IDS, "INVALID_ARGUMENT", "actorId"),
    "a transaction of an actor without an id": GrpcDifference(_IDS, "INVALID_ARGUMENT", "actorId"),
    "a transaction with a senseless time to live": GrpcDifference(
        "the words are Go's", "INTERNAL", "error parsing TTL"
    ),
    "a reminder of an actor without an id": GrpcDifference(_IDS, "INVALID_ARGUMENT", "actorId"),
    "a reminder of an id with a slash": GrpcDifference(_IDS, "INVALID_ARGUMENT", "actorId"),
    "a reminder without any time": GrpcDifference(_OTHER_WORDS, "INTERNAL", "error creating actor reminder"),
    "a reminder due at no time": GrpcDifference(_OTHER_WORDS, "INTERNAL", "error creating actor reminder"),
    "a reminder without repetitions": GrpcDifference("daprd's scheduler repeats it for ever", "INTERNAL", "R0/PT1H"),
    "a reminder with a time to live only": GrpcDifference(_OTHER_WORDS, "INTERNAL", "error creating actor reminder"),
    "a reminder with a senseless time to live": GrpcDifference(_OTHER_WORDS, "INTERNAL", "error creating actor"),
    "a reminder retried before now": GrpcDifference("it would be retried without a pause", "INTERNAL", "below zero"),
    "a timer of an actor without an id": GrpcDifference(_IDS, "INVALID_ARGUMENT", "actorId"),
    "an app that is not there": GrpcDifference("there is no name resolution", "INTERNAL", "failed to invoke, id: nope"),
    "an app in capitals": GrpcDifference("there is no name resolution", "INTERNAL", "failed to invoke, id: CONF"),
    "daprd's own path": GrpcDifference("daprd's own calls to an app have no place here", "NOT_FOUND", "Not Found"),
    "a stored value": GrpcDifference(_NOT_SERVED, "UNIMPLEMENTED", "GetState is not served"),
    "a secret": GrpcDifference(_NOT_SERVED, "UNIMPLEMENTED", "GetSecret is not served"),
    "a message to a topic": GrpcDifference(_NOT_SERVED, "UNIMPLEMENTED", "PublishEvent is not served"),
    "a job": GrpcDifference(_NOT_SERVED, "UNIMPLEMENTED", "GetJob is not served"),
    "an actor's reminders": GrpcDifference(_NOT_SERVED, "UNIMPLEMENTED", "ListActorReminders is not served"),
}
