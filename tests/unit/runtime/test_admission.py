"""Which calls of other apps an actor takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dapr.actor import Actor, ActorInterface

from holdfast.errors import Forbidden, SettingsError, Unauthorized, Unavailable
from holdfast.gateway.auth.actor_tokens import token_check
from holdfast.gateway.auth.principal import Caller, Role
from holdfast.gateway.auth.tokens import Tokens, digest_of
from holdfast.orchestration.actor.actor import orchestration_actor
from holdfast.orchestration.api.interface import OrchestrationActorInterface
from holdfast.orchestration.registry import Registry
from holdfast.pushpop.api.interface import PushPopActorInterface
from holdfast.runtime.contract import ActorAddress
from holdfast.runtime.dapr.admission import PROOF_HEADER, VARIABLE, Admission, Proofs
from holdfast.runtime.unit_of_work import methods_of
from holdfast.schedules.actor import schedule_actor
from holdfast.server import OWN_ACTORS

if TYPE_CHECKING:
    from holdfast.runtime.dapr.admission import OtherApps

QUEUE = ActorAddress("PushPopActor", "orders")
ACTORS: tuple[Any, ...] = (*OWN_ACTORS, orchestration_actor(Registry()), schedule_actor(Registry()))


#: The public methods that every user may call over REST, and the methods that need an operator there.
PUBLIC: dict[type[ActorInterface], tuple[set[str], set[str]]] = {
    PushPopActorInterface: (
        {
            *("Push", "Pop", "PopWithAck", "Acknowledge", "Abandon", "Complete", "ExtendLock", "DeadLetter", "Revoke"),
            *("Peek", "InFlight", "Stats", "DeadLetters", "GetConfig"),
        },
        {"Requeue", "ExtendByPrefix", "Redrive", "DeleteDeadLetters", "Purge", "Delete", "SetConfig"},
    ),
    OrchestrationActorInterface: (
        {"Start", "RaiseEvent", "Request", "Cancel", "Status", "History"},
        {"Suspend", "Resume", "Delete"},
    ),
}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class Theirs(Actor):
    """An ordinary actor of the app that runs here."""


def admission(other_apps: OtherApps = "public", **tokens: Caller) -> Admission:
    known = Tokens({digest_of(name.encode()): caller for name, caller in tokens.items()})
    made = Admission(other_apps, token_check(lambda: known))
    for actor_class in (*ACTORS, Theirs):
        made.register(actor_class)
    return made


@pytest.mark.parametrize("actor_class", ACTORS)
def test_each_actor_of_holdfast_says_what_is_public(actor_class: type[Any]) -> None:
    assert not actor_class.is_public("@acme@orders", "Push")
    assert not actor_class.is_public("orders", "Batch")
    assert not actor_class.is_public("orders", "ProcessId")


def test_only_methods_of_queues_and_instances_are_public() -> None:
    public = {
        (actor_class.__name__, method)
        for actor_class in ACTORS
        for interface in actor_class.__mro__
        if issubclass(interface, ActorInterface) and interface is not ActorInterface
        for method in methods_of(interface)
        if actor_class.is_public("orders", method)
    }
    kinds = {PushPopActorInterface: "PushPopActor", OrchestrationActorInterface: "OrchestrationActor"}
    assert public == {
        (kinds[one], method) for one, (users, operators) in PUBLIC.items() for method in users | operators
    }


@pytest.mark.parametrize("interface", PUBLIC)
def test_a_token_needs_the_role_that_the_same_call_needs_over_rest(interface: type[ActorInterface]) -> None:
    guarded = admission("token", user=Caller(role=Role.USER), operator=Caller(role=Role.OPERATOR))
    address = ActorAddress(interface.__name__.removesuffix("Interface"), "orders")
    users, operators = PUBLIC[interface]
    for method in users:
        guarded.check(address, method, bearer("user"))
    for method in operators:
        guarded.check(address, method, bearer("operator"))
        with pytest.raises(Forbidden):
            guarded.check(address, method, bearer("user"))


def test_queues_and_instances_of_the_default_tenant_are_public() -> None:
    taken = admission()
    taken.check(QUEUE, "Push", {})
    taken.check(ActorAddress("PushPopActor", "orders@3"), "Pop", {})
    taken.check(ActorAddress("OrchestrationActor", "one"), "Start", {})
    taken.check(ActorAddress("Theirs", "@acme@orders"), "Anything", {})


def test_nothing_is_public_where_other_apps_may_call_nothing() -> None:
    for kind in ("PushPopActor", "Theirs"):
        with pytest.raises(Forbidden):
            admission("none").check(ActorAddress(kind, "orders"), "Push", {})


def test_a_token_opens_what_its_role_and_tenant_may_call() -> None:
    guarded = admission(
        "token",
        reader=Caller(role=Role.READER),
        user=Caller(role=Role.USER),
        operator=Caller(role=Role.OPERATOR),
        acme=Caller("acme", Role.OPERATOR, bound=True),
    )
    guarded.check(QUEUE, "Push", bearer("user"))
    guarded.check(QUEUE, "Purge", bearer("operator"))
    for method, headers, error in (
        ("Push", {}, Unauthorized),
        ("Push", bearer("guess"), Unauthorized),
        ("Push", bearer("gu\u00e9ss"), Unauthorized),
        ("Push", {"authorization": "Basic user"}, Unauthorized),
        ("Push", bearer("reader"), Forbidden),
        ("Purge", bearer("user"), Forbidden),
        ("Push", bearer("acme"), Forbidden),
        ("Batch", bearer("operator"), Forbidden),
    ):
        with pytest.raises(error):
            guarded.check(QUEUE, method, headers)


def test_a_proof_is_of_one_call_and_one_secret() -> None:
    ours = Proofs("a secret of ours")
    proof = ours.make("PushPopActor", "orders", "Batch", "call-1", b"body")
    assert ours.prove(proof, QUEUE, "Batch", "call-1", b"body")
    assert Proofs("a secret of ours").prove(proof, QUEUE, "Batch", "call-1", b"body")
    assert not Proofs("one of other apps").prove(proof, QUEUE, "Batch", "call-1", b"body")
    assert not ours.prove("\u00e9", QUEUE, "Batch", "call-1", b"body")
    assert not ours.prove(proof, ActorAddress("PushPopActor", "@acme@orders"), "Batch", "call-1", b"body")
    assert not ours.prove(proof, QUEUE, "Receive", "call-1", b"body")
    assert not ours.prove(proof, QUEUE, "Batch", "call-2", b"body")
    assert not ours.prove(proof, QUEUE, "Batch", "call-1", b"bodY")


def test_processes_with_different_secrets_are_told_what_to_do() -> None:
    with pytest.raises(Unavailable, match=VARIABLE):
        admission().check(QUEUE, "Push", {PROOF_HEADER: "0" * 64})


def test_the_secret_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def proof() -> str:
        return Proofs().make("PushPopActor", "orders", "Batch", "1", b"")

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("APP_API_TOKEN", raising=False)
    alone = proof()
    monkeypatch.setenv("APP_API_TOKEN", "the way back")
    derived = proof()
    monkeypatch.setenv(VARIABLE, "a secret of ours")
    given = proof()
    assert len({alone, derived, given}) == 3
    assert given == Proofs("a secret of ours").make("PushPopActor", "orders", "Batch", "1", b"")
    monkeypatch.setenv(VARIABLE, "too short")
    with pytest.raises(SettingsError, match=VARIABLE):
        Proofs()
