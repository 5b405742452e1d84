"""One word for each thing: code and documents use the words of docs/glossary.md, and none that it rules out.

Identifiers, comments, docstrings, messages, scripts and pages are read, each file as one text; tests are not. Where
English needs a word of the page's last table for something else, the pattern here says so.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGE = GLOSSARY.read_text(encoding="utf-8")
FOLDERS = ("maestro_state", "workers", "cli", "tools", "benchmarks", "examples", "deploy", "docs")
FILES = [path for top in FOLDERS for kind in ("*.py", "*.lua", "*.js", "*.md") for path in (ROOT / top).rglob(kind)]
FILES += [path for kind in ("*.md", "*.toml", "*.yml", "Dockerfile", "Makefile") for path in ROOT.glob(kind)]
FILES = sorted(path for path in FILES if path != GLOSSARY)

#: Word of the page → where it is used so: as a part of an identifier, or as prose.
RULED_OUT: dict[str, str] = {
    "sign of life": r"\bsigns?[ _]of[ _]life\b",
    "look": r"\b(a|the|each|every|one|next|last|first|two|three|further|no|another) looks?\b|\blooks? each\b"
    r"|\w_looks?\b|\blooks?_\w|\.look\b|\blook[:=(]|\bdef look\b",
    "put back": r"\b(put|puts|putting)[ _](\w+ ){0,2}back\b",
    "leave": r"\b(leaves|leaving)[ _]with\b|\bleaving\b|\bhas_left\b|\bis_leaving\b"
    r"|\bdef leave\b|\bleave\(|\bleave_all\b"
    r"|(process|worker|server|supervisor|terminal|lease|caller)s? (that )?(leaves?|left)\b",
    "stranger": r"(\b|_)strangers?(\b|_)",
    "patience": r"(\b|_)patien(ce|t)(\b|_)",
    "lane": r"\blanes?\b(?!:)",
    "letter": r"\bdead_letter\b|\bletter_",
    "family": r"\bfamil(y|ies)\b",
    "shift": r"\bshifts?\b(?!-click| key|\(\))",  # the key, and what arrays of JavaScript do
    "aftermath": r"\baftermath\b",
    "insiders": r"\binsiders?\b",
}


def words_in(text: str) -> list[str]:
    """Return the words of a text that the glossary rules out."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text)
    apart = re.sub(r"\b_+(?=\w)", "", apart)  # a private name is a name
    return [word for word, form in RULED_OUT.items() if re.search(form, apart, re.IGNORECASE)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_uses_the_words_of_the_trade(path: Path):
    """Nothing that the glossary rules out."""
    assert words_in(path.read_text(encoding="utf-8")) == []


def test_the_page_and_the_patterns_are_one_list():
    """Each word that the page rules out is looked for, and no other."""
    rows = re.search(r"## Not used\n(.*)", PAGE, re.DOTALL)
    assert rows
    assert set(re.findall(r"^\| ([a-z ]+) \|", rows[1], re.MULTILINE)) - {"not"} == set(RULED_OUT)


SAMPLES = (
    "# a sign of life each second", "def look_at(run): ...", "between two looks", "puts the job back", "class Patience",
    "a stranger's file", "the worker leaves", "is_leaving = True",
    "async def leave(self):", "each lane of calls", "a key of the family", "SHIFT",
    "_STRANGERS = 16", "self._patience = None", "PATIENCE_S = 30",
)  # fmt: skip


@pytest.mark.parametrize("text", SAMPLES)
def test_the_words_would_be_found(text: str):
    """The patterns have teeth."""
    assert words_in(text)


def test_plain_english_is_not_ruled_out():
    """The same words in another sense stay free."""
    assert not words_in(
        "it looks like a secret; somebody looks at it; letters and digits; what is left; leave it as it is"
    )
