"""What is asked for, as words: how a question becomes one that the index understands, whatever was typed.

Nothing that was typed reaches the index as syntax: every word is quoted, and there is nothing in it that could end the
quotes.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from maestro_state.errors import InvalidValue

#: Longest question, in characters, and most words and phrases in it.
QUERY_MAX, TERMS_MAX = 1000, 50

_CUTS = re.compile(r"(?<=[a-zß-öø-ÿ0-9])(?=[A-ZÀ-ÖØ-Þ])|(?<=[A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ])")
#: Letters of scripts that are written without spaces: each is a word of its own.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_JOINED = re.compile(f"[a-zß-öø-ÿ0-9][A-ZÀ-ÖØ-Þ]|[A-ZÀ-ÖØ-Þ]{{2}}[a-zß-öø-ÿ]|[{_UNSPACED}]|[ßẞ]")
#: A letter that is two in capitals, and for those who have no key for it.
_SHARP = str.maketrans({"ß": "ss", "ẞ": "SS"})
_DOUBLE = re.compile(r"ss|ß|.", re.DOTALL)
_WORD = re.compile(r"[^\W_]+")
_EDGE = re.compile(rf"(?<![^\W_])|(?![^\W_])|(?<=[{_UNSPACED}])|(?=[{_UNSPACED}])|{_CUTS.pattern}")
_ONE_UNSPACED = re.compile(f"([{_UNSPACED}])")
_TERM = re.compile(r'"([^"]*)"?|([^"\s]+)')


class Term(NamedTuple):
    """Something that has to be there: a word, words in a row, or how the last of them begins."""

    words: tuple[str, ...]  #: as they follow each other
    apart: tuple[str, ...]  #: the same with joined names split: fixLogin as fix, login
    is_prefix: bool


def split(text: str) -> str | None:
    """Return the parts of joined names in a text (fixLoginCookie, 修复), as words, and what is written with ß with ss;
    None when it has none.

    Names joined by anything else than letters and digits are split by the index itself.
    """
    if _JOINED.search(text) is None:
        return None
    found = []
    for word in _WORD.findall(text):
        if len(parts := _parts(word)) > 1:
            found += parts
        if (spelled := word.translate(_SHARP)) != word:
            found += dict.fromkeys((spelled, *_parts(spelled)))
    return " ".join(found) or None


def _parts(word: str) -> list[str]:
    if _JOINED.search(word) is None:
        return [word]
    return [part for piece in _ONE_UNSPACED.split(word) for part in _CUTS.split(piece) if part]


def terms(query: str) -> list[Term]:
    """Read a question: words, "phrases" and prefixes*; raises InvalidValue for one that asks for nothing."""
    if len(query) > QUERY_MAX:
        raise InvalidValue(f"the question is longer than {QUERY_MAX} characters", hint="search for fewer words")
    plain = unicodedata.normalize("NFC", query.translate({0x201C: '"', 0x201D: '"'}))
    found = [term for phrase, word in _TERM.findall(plain) if (term := _term(phrase or word))]
    if not found:
        raise InvalidValue(
            "there is no word to search for", hint='maestro search login, "a phrase", or the beginning of a word: log*'
        )
    if len(found) > TERMS_MAX:
        raise InvalidValue(f"the question has more than {TERMS_MAX} words", hint='put a phrase in quotes: "a b c"')
    return found


def _term(text: str) -> Term | None:
    words = _WORD.findall(text)
    apart = tuple(part for word in words for part in _parts(word))
    return Term(tuple(words), apart, text.rstrip().endswith("*")) if words else None


def match(found: list[Term]) -> str:
    """Return the question in the index's own language."""
    return " AND ".join(_quoted(term) for term in found)


def _quoted(term: Term) -> str:
    star = " *" if term.is_prefix else ""
    forms = dict.fromkeys((" ".join(term.words), " ".join(term.apart)))
    forms |= dict.fromkeys(form.translate(_SHARP) for form in forms)
    return "(" + " OR ".join(f'"{form}"{star}' for form in forms) + ")"


class _Folded(dict[int, str]):
    """Each letter without accent and case; one for one, so that places stay what they are."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        parts = unicodedata.normalize("NFD", char)
        is_accented = all(unicodedata.category(mark) == "Mn" for mark in parts[1:])
        lower = (parts[0] if is_accented else char).lower()
        self[code] = folded = lower if len(lower) == 1 else char
        return folded


_FOLDED = _Folded()


def fold(text: str) -> str:
    """Return a text without accents and case, letter for letter."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


@lru_cache(maxsize=64)
def _pattern(term: Term) -> re.Pattern[str]:
    """Return what finds a term in a folded text: between marks of any kind, and inside of joined names."""
    gap, marks = r"[\W_]+", "[\u0300-\u036f]*"
    end = "" if term.is_prefix else r"(?![^\W_])"
    sharp = f"(?:s{marks}s|ß)"

    def written(word: str) -> str:
        letters = _DOUBLE.findall(fold(word))
        return marks.join(sharp if one in ("ss", "ß") else re.escape(one) for one in letters)

    exact = gap.join(map(written, term.words))
    loose = r"[\W_]*".join(map(written, term.apart))
    return re.compile(rf"(?<![^\W_]){exact}{end}|{loose}")


def places(text: str, folded: str, term: Term, *, most: int) -> list[tuple[int, int]]:
    """Return where a term is in a text that was also folded, the first ones: as words, or as parts of joined names.

    The index reads some letters otherwise; where it found a term that is nowhere a word here, every place is told.
    """
    found: list[tuple[int, int]] = []
    inside: list[tuple[int, int]] = []
    for place in _pattern(term).finditer(folded):
        start, end = place.span()
        if _is_edge(text, start) and (term.is_prefix or _is_edge(text, end)):
            found.append((start, end))
            if len(found) >= most:
                break
        elif len(inside) < most:
            inside.append((start, end))
    return found or inside


def _is_edge(text: str, at: int) -> bool:
    """Tell whether a word, or a part of a joined name, begins or ends somewhere in a text."""
    return _EDGE.match(text, at) is not None
