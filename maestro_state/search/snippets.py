"""The piece of a text that shows why it was found, with the words marked: «login»."""

from __future__ import annotations

import re

from maestro_state.search.words import Term, fold, places

#: Characters shown, and how many of them before the first word that was found.
WIDTH, BEFORE = 160, 40
MARKS = ("«", "»")

#: Characters that are looked at first; a text is folded whole only if there is nothing in them.
_FIRST = 1 << 14
_MOST = 50
#: Names that a found word is marked with, whole: a mark does not cut fix_login_cookie.
_NAME = re.compile(r"\w*\Z")
_NAME_END = re.compile(r"\w*")
#: What stands for a mark that a text has itself.
_OWN = str.maketrans("«»", "‹›")


def snippet(text: str, terms: list[Term]) -> str:
    """Return about a line of a text, where most of what was asked for is."""
    found = _found(text[:_FIRST], terms)
    if len(text) > _FIRST and len({at for _, _, at in found}) < len(terms):
        found = _found(text, terms)
    start = _window(found)
    start = max(0, start - BEFORE)
    if start:  # not in the middle of a word, if there is a better place near
        space = text.find(" ", start, start + BEFORE // 2)
        start = space + 1 if space >= 0 else start
    end = min(len(text), start + WIDTH)
    return _shown(text, start, end, _joined(text, [(a, b) for a, b, _ in found if a >= start and b <= end]))


def _found(text: str, terms: list[Term]) -> list[tuple[int, int, int]]:
    folded = fold(text)
    return sorted((*span, at) for at, term in enumerate(terms) for span in places(text, folded, term, most=_MOST))


def _window(found: list[tuple[int, int, int]]) -> int:
    """Return where the piece begins that has the most of the terms; the first of those."""
    best, best_start = 0, found[0][0] if found else 0
    for start, _, _ in found:
        count = len({at for a, b, at in found if a >= start and b <= start + WIDTH - BEFORE})
        if count > best:
            best, best_start = count, start
    return best_start


def _joined(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the places as whole names, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        before, after = _NAME.search(text, max(0, start - 80), start), _NAME_END.match(text, end, end + 80)
        start, end = before.start() if before else start, after.end() if after else end
        if joined and (start <= joined[-1][1] or text[joined[-1][1] : start].isspace()):
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _shown(text: str, start: int, end: int, marks: list[tuple[int, int]]) -> str:
    if marks:
        start, end = min(start, marks[0][0]), max(end, marks[-1][1])
    pieces, at = [], start
    for begin, stop in marks:
        pieces += [text[at:begin].translate(_OWN), MARKS[0], text[begin:stop], MARKS[1]]
        at = stop
    pieces.append(text[at:end].translate(_OWN))
    shown = " ".join("".join(pieces).split())
    return ("…" if start > 0 else "") + shown + ("…" if end < len(text) else "")
