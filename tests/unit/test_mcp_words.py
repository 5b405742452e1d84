"""What agents give and get, without the SDK: arguments are read strictly, texts are cut, the missing extra is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from maestro_state.errors import InvalidValue
from maestro_state.local.extras import install_command
from maestro_state.mcp import arguments as given
from maestro_state.mcp import descriptions
from maestro_state.mcp.answers import (
    MESSAGES_MAX,
    OUTPUT_MAX,
    TEXT_MAX,
    Tail,
    bounded,
    clip,
    message_documents,
    source_of,
)
from maestro_state.models.message import Message


@pytest.mark.parametrize(
    ("kind", "said", "told"),
    [
        (given.ReadMessages, {"last": 0}, "last 1–200"),
        (given.ReadMessages, {"last": 201}, "last 1–200"),
        (given.ReadMessages, {"limit": 5}, "unknown field `limit`"),
        (given.PostMessage, {}, "required field `content`"),
        (given.PostMessage, {"content": "x", "role": "boss"}, "assistant|system|tool|user"),
        (given.PostMessage, {"content": ""}, "content"),
        (given.WaitForEvents, {"timeout_s": 56}, "timeout_s 0–55"),
        (given.SearchSessions, {"query": "x", "limit": 51}, "limit 1–50"),
        (given.GetSession, {"session": "x"}, "no arguments"),
    ],
)
def test_bad_arguments_say_what_to_give(kind: type[given.Arguments], said: dict[str, object], told: str):
    """A model reads what is wrong and what there is to give, in one line."""
    with pytest.raises(InvalidValue) as refused:
        given.read(kind, said)
    line = f"{refused.value} → {refused.value.hint}"
    assert told in line
    assert "\n" not in line


def test_arguments_are_taken_as_models_write_them():
    """Null is left out, and a number may be a text."""
    assert given.read(given.ReadMessages, {"last": "7", "since": None}) == given.ReadMessages(last=7)


def test_descriptions_are_short():
    """Every word is read by every model at every start."""
    assert all(len(text) <= 300 for text in descriptions.DESCRIPTIONS.values())
    assert len(descriptions.INSTRUCTIONS) <= 1000


def test_the_end_of_an_output_is_whole_characters():
    """A tail is cut between characters, and never longer than said, whatever the bytes are."""
    for piece in ("ã".encode() * 20_000, b"\xff" * 20_000, "🎼".encode() * 9_000):
        tail = Tail()
        for at in range(0, len(piece), 1000):
            tail.add(piece[at : at + 1000])
        assert 0 < len(tail.text().encode()) <= OUTPUT_MAX
    assert Tail().text() == ""


def test_long_texts_keep_their_ends():
    """The middle of a text that is too long is left out, and said to be."""
    text = "a" * 50 + "b" * 1000 + "c" * 50
    assert clip(text, 100) == "a" * 50 + "\n[… 1000 characters left out …]\n" + "c" * 50
    assert clip("short", 100) == "short"


def test_many_long_messages_fit_together():
    """Each is cut the shorter the more of them there are; short ones stay whole, and so does one alone."""
    long, short = "x" * TEXT_MAX, "short"
    said = [Message(id=f"{n}-0", role="user", content=one) for n, one in enumerate([long, short] * 50)]
    texts = [one["content"] for one in message_documents(said, "ana")]
    assert sum(map(len, texts)) < MESSAGES_MAX + 50 * len("\n[… 16000 characters left out …]\n")
    assert texts[1::2] == [short] * 50
    assert "left out" in texts[0]
    assert message_documents(said[:1], "ana")[0]["content"] == long


def test_what_is_said_with_a_message_is_bounded_too():
    """A framework's own item may be of any size; who wrote the message is said all the same."""
    item = {"tool": "codex", "item": ["y" * 100_000]}
    (document,) = message_documents([Message(id="1-0", role="user", content="x", metadata=item)], "ana")
    assert "left out" in document["metadata"]
    assert len(document["metadata"]) < 5000
    assert document["source"] == {"user": "ana", "tool": "codex"}
    assert bounded({"small": [1]}, 20) == {"small": [1]}


def test_who_wrote_a_text():
    """Person, tool, run and client, as far as they are known."""
    assert source_of("ana", {"run": "0001", "tool": "codex", "other": 1}) == {
        "user": "ana", "tool": "codex", "run": "0001",
    }  # fmt: skip
    assert source_of(None, None) == {}


#: A program in which the SDK cannot be imported.
WITHOUT = (
    "import sys\nclass No:\n    def find_spec(self, name, *_):\n"
    "        if name.partition('.')[0] in ('mcp', 'mcp_types'): raise ModuleNotFoundError(name, name=name)\n"
    "sys.meta_path.insert(0, No())\n"
)


def test_without_the_extra_it_is_named():
    """The library says which extra is missing; the command exits with 2 and the same words."""
    code = (
        WITHOUT + "from maestro_state.mcp import build_server\ntry: build_server()\nexcept ImportError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"MCP needs an extra: {install_command('mcp')}"
    code = WITHOUT + "from maestro_cli.main import run\nsys.exit(run(['mcp']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert install_command("mcp") in done.stderr


def test_the_library_does_not_import_the_sdk():
    """Whoever does not serve agents does not wait a second for it."""
    code = "import sys, maestro_state.mcp; maestro_state.AsyncMaestro; print('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
