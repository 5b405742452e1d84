"""What adapters say without their framework, and how items are kept; against the frameworks themselves: tests/reach."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from maestro_state.adapters.items import packed, text_of, unpacked
from maestro_state.models.message import Message

NEEDS = {
    "adk": ("google.adk.errors", "maestro-state[adk]"),
    "langgraph": ("langgraph.checkpoint.base", "maestro-state[langgraph]"),
    "claude_agent": ("claude_agent_sdk", "maestro-state[claude]"),
    "openai_agents": ("agents.memory", "maestro-state[openai-agents]"),
}


@pytest.mark.parametrize("name", NEEDS)
def test_a_missing_framework_is_named(name: str, monkeypatch: pytest.MonkeyPatch):
    """With what installs it."""
    framework, extra = NEEDS[name]
    monkeypatch.setitem(sys.modules, framework, None)
    monkeypatch.delitem(sys.modules, f"maestro_state.adapters.{name}", raising=False)
    with pytest.raises(ImportError) as told:
        import_module(f"maestro_state.adapters.{name}")
    assert f"pip install '{extra}'" in str(told.value)


@pytest.mark.parametrize(
    "item", [{"a": 1}, {"half": "\ud800"}, {"big": 2**90}, {"deep": [{}, [], None, 0.1]}, ["x"], 3]
)
def test_items_come_back_equal(item: object):
    """As JSON where JSON has a form for them, else as text of it."""
    assert unpacked("openai", Message("1-0", "user", "", metadata=packed("openai", item))) == item
    assert unpacked("claude", Message("1-0", "user", "", metadata=packed("openai", item))) is None


def test_the_text_of_blocks():
    """Only what is text, whatever else is between."""
    assert text_of("plain \ud800") == "plain ?"
    assert (
        text_of([{"type": "text", "text": "a"}, {"type": "image"}, "odd", {"type": "output_text", "text": "b"}])
        == "a\nb"
    )
    assert text_of(None) == text_of({"type": "text"}) == ""
