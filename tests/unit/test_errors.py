"""Errors as other processes get them: pools of workers hand them over pickled."""

from __future__ import annotations

import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from maestro_state import errors
from maestro_state.errors import (
    InvalidTransition,
    MaestroError,
    NoActiveSession,
    RunsOpen,
    SessionNotFound,
    ToolNotFound,
)
from maestro_state.tools import resolve


def kinds() -> list[type[MaestroError]]:
    """Return every error."""
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, MaestroError)]
    assert len(found) > 40
    return found


def made(kind: type[MaestroError]) -> MaestroError:
    """Make one, whatever it wants to know."""
    wanted = [one for one in inspect.signature(kind).parameters.values() if one.default is one.empty]
    values = {"str": "a", "int": 1, "list[str]": ["a", "b"]}
    known = [values.get(str(one.annotation), "a") for one in wanted if one.kind is one.POSITIONAL_OR_KEYWORD]
    return kind(*known)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_it_is_the_same_elsewhere(kind):
    """Its class, its text, its hint and what else it tells."""
    error = made(kind)
    error.add_note("seen")
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), found.__dict__) == (kind, str(error), error.__dict__)


def _refused(ref: str) -> None:
    raise InvalidTransition(ref, "finalizada", "writing to it") if ref == "a" else SessionNotFound(ref)


def test_a_pool_hands_it_over():
    """And goes on: an error that cannot be read again ends the whole pool."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(InvalidTransition, match="finalizada"):
            pool.submit(_refused, "a").result()
        with pytest.raises(SessionNotFound, match=r"^no session 'b'$"):
            pool.submit(_refused, "b").result()


def test_people_are_told_what_a_stored_word_means():
    """A newcomer meets `finalizada` in a refusal first: there, too, it comes with its meaning."""
    assert "is finalizada · ended; starting a run" in str(
        InvalidTransition("x--000000", "finalizada", "starting a run")
    )
    assert "is executando · running: a run" in str(RunsOpen("x--000000"))
    assert str(NoActiveSession()) == "this checkout has no active session"


def test_a_mistyped_tool_is_named():
    """What may be meant is said of tools as it is of sessions and commands; of what is like none, nothing."""
    with pytest.raises(ToolNotFound, match=r"found on PATH; did you mean claude\?"):
        resolve("cluade", "/nowhere")
    with pytest.raises(ToolNotFound, match=r"found on PATH$"):
        resolve("xyzzy", "/nowhere")
