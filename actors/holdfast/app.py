"""What an author writes: an app, and what belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    # Half a second, which whoever imports only the client need not wait for.
    from dapr.actor import Actor

ActorClass = TypeVar("ActorClass", bound="type[Actor]")


class App:
    """Everything one program brings to a Holdfast server. ``holdfast serve MODULE:APP`` runs it, on either host."""

    def __init__(self) -> None:
        self._actors: dict[str, type[Actor]] = {}

    @property
    def actors(self) -> list[type[Actor]]:
        return list(self._actors.values())

    def actor(self, actor_class: ActorClass) -> ActorClass:
        """Registers an ordinary Dapr actor class, to be run on whichever host there is."""
        known = self._actors.setdefault(actor_class.__name__, actor_class)
        if known is not actor_class:
            raise ValueError(f"two actor classes are called {actor_class.__name__}: {known} and {actor_class}")
        return actor_class
