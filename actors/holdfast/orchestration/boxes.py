"""The declared names and types of what an orchestration receives from outside: its mailboxes or its requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import InvalidRequest
from holdfast.names import check_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.orchestration.core.payloads import Codec

#: How an author declares them: names alone, or names with types.
Declaration: TypeAlias = "Iterable[str] | Mapping[str, Any]"


class Boxes(Mapping[str, Any]):
    """The type of each declared name; ``Any`` for a name without a type."""

    def __init__(self, declared: Declaration = (), what: str = "mailbox") -> None:
        if isinstance(declared, str):
            raise TypeError(f"declare a list of names: [{declared!r}]")
        self._types = dict(declared) if isinstance(declared, Mapping) else dict.fromkeys(declared, Any)
        self._what = what
        for name in self._types:
            try:
                check_id(name, f"{what} name")
            except InvalidRequest as error:
                raise ValueError(f"{name!r}: {error}") from None

    def __getitem__(self, name: str) -> Any:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def is_typed(self, name: str) -> bool:
        return self._types.get(name, Any) is not Any

    def codec(self, name: str) -> Codec:
        """Returns the codec of the declared type."""
        # Resolved at first use, so that an app can be declared without loading pydantic.
        from holdfast.orchestration.core.payloads import codec

        return codec(self._types.get(name, Any))

    def check(self, name: str, text: str) -> None:
        """Raises InvalidRequest when JSON text does not fit the declared type of ``name``."""
        if self.is_typed(name):
            self.codec(name).check(text, f"the {self._what} {name}")
