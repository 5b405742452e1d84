"""Values that are to be JSON: whoever writes plain text is given the command that sets it."""

from __future__ import annotations

import json
import shlex

import pytest
from maestro_cli.input import json_argument, json_or_text

from maestro_state.errors import InvalidValue
from maestro_state.state.calls.sessions import _stored, check_ttl


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("be brief", {"note": "be brief"}),
        ("don't", {"note": "don't"}),
        ("{language: en}", {"language": "en"}),
        ("two\nlines", {"language": "en"}),
        ("x" * 61, {"language": "en"}),
        ("", {"language": "en"}),
    ],
)
def test_the_hint_is_a_command_that_works(typed: str, wanted: dict[str, str]):
    """A short text is in it as it was typed, quoted for a shell; of what was to be JSON there is an example."""
    with pytest.raises(InvalidValue, match="preferences is not JSON: ") as refused:
        json_or_text("preferences", typed)
    assert "malformed" not in str(refused.value)
    *words, value = shlex.split(refused.value.hint or "")
    assert words == ["maestro", "session", "set", "preferences"]
    assert json_or_text("preferences", value) == json.loads(value) == wanted


def test_other_values_that_are_refused_say_what_to_write():
    """JSON that is no object, and a time that is no number of seconds; what is no field gets no command of one."""
    with pytest.raises(InvalidValue, match="must be a JSON object") as refused:
        _stored(None, "preferences", ["a"])
    assert refused.value.hint == """maestro session set preferences '{"language":"en"}'"""
    with pytest.raises(InvalidValue, match="not week") as refused:
        check_ttl("week")
    assert refused.value.hint == "a day is 86400, a week 604800"
    with pytest.raises(InvalidValue, match="--metadata is not JSON") as refused:
        json_argument("--metadata", "x")
    assert refused.value.hint is None
