"""Errors keep their code, their words and their details on the way through other processes."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import holdfast
from holdfast import errors


def every_error() -> list[type[errors.HoldfastError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.HoldfastError)]


@pytest.mark.parametrize("kind", every_error())
def test_every_error_is_a_sentence_with_a_code_and_a_status(kind: type[errors.HoldfastError]) -> None:
    error = kind()
    assert str(error).endswith((".", "?", "'"))
    assert error.code.isupper()
    assert 400 <= error.status < 600
    assert error.as_dict() == {"message": str(error), "errorCode": kind.code}


@pytest.mark.parametrize("kind", every_error())
def test_an_error_comes_back_by_its_code(kind: type[errors.HoldfastError]) -> None:
    error = errors.by_code(kind.code, "said elsewhere", until=5)
    assert (error.code, error.status, error.retryable) == (kind.code, kind.status, error.retryable)
    assert str(error) == "said elsewhere"
    assert error.as_dict() == {"message": "said elsewhere", "errorCode": kind.code, "until": 5}


def test_the_general_error_stands_for_its_refinements() -> None:
    assert type(errors.by_code("UNAVAILABLE", "")) is errors.Unavailable
    assert type(errors.by_code("CONFLICT", "")) is errors.Conflict


@pytest.mark.parametrize("code", ["", "NEVER_HEARD_OF", "ERR_ACTOR_INVOKE_METHOD"])
def test_an_unknown_code_is_an_internal_error(code: str) -> None:
    error = errors.by_code(code, "what?")
    assert (type(error), error.code, error.status) == (errors.HoldfastError, "INTERNAL", 500)


def test_an_error_of_ones_own_needs_no_docstring() -> None:
    class Bare(errors.HoldfastError):
        pass

    class Wrapped(errors.HoldfastError):
        """
        The first line that says something.

        And more.
        """

    assert str(Bare()) == "Something went wrong."
    assert str(Wrapped()) == "The first line that says something."


def test_errors_are_sentences_also_where_docstrings_are_stripped() -> None:
    code = "from holdfast.errors import NotFound; print(NotFound())"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "Something went wrong.\n"


def test_every_error_has_its_place_in_one_module() -> None:
    """Only those are known by their code."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def below(kind: type) -> list[type]:
        return [found for child in kind.__subclasses__() for found in (child, *below(child))]

    homes = {kind.__module__ for kind in below(errors.HoldfastError)}
    assert {home for home in homes if home.startswith("holdfast.")} == {"holdfast.errors"}
