"""How wide text is on a terminal, and how it is made to fit."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import click

#: Columns of an id's end that a table keeps: the two dashes and the six characters that are a reference.
_END_COLUMNS = 8
#: How many characters may share a column, on average, before a row is broken all the same.
_MARKS = 4


def width_of(text: str) -> int:
    return sum(_columns(char) for char in click.unstyle(text))


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """Shorten a plain text to a width, with an ellipsis where something is missing."""
    if width_of(text) <= columns:
        return text
    return _beginning(text, columns - 1) + "…"


def clip_middle(text: str, columns: int) -> str:
    """Shorten a plain text to a width where the end matters most: an id's last characters are what one types."""
    if width_of(text) <= columns:
        return text
    end = _beginning(text[::-1], min(_END_COLUMNS, columns // 2))[::-1]
    return _beginning(text, columns - 1 - width_of(end)) + "…" + end


def telling_length(ids: Iterable[str], least: int = 8) -> int:
    """Return how many characters tell ids apart: a beginning of that length names each of them."""
    from itertools import pairwise

    def differ_at(one: str, other: str) -> int:
        return next((at for at, pair in enumerate(zip(one, other, strict=False)) if len(set(pair)) > 1), len(one))

    return max([least, *(differ_at(one, other) + 1 for one, other in pairwise(sorted(set(ids))))])


def _beginning(text: str, columns: int) -> str:
    used = 0
    for at, char in enumerate(text):
        used += _columns(char)
        if used > columns:
            return text[:at]
    return text


def rows_of(text: str, columns: int) -> list[str]:
    """Break one line into rows of a width: between words where there is room for one, the beginning kept as it is.

    Costs what the text is long, which may be megabytes in one line.
    """
    rows: list[str] = []
    at = 0
    while True:
        ahead = text[at : at + _MARKS * columns]  # as many as a row can take, marks above letters counted in
        row = _beginning(ahead, columns)
        end = at + len(row)
        if end >= len(text):
            return [*rows, row]
        if text[end] != " " and (space := row.rfind(" ")) > columns // 3:
            row, end = row[:space], at + space
        rows.append(row.rstrip())
        at = end + (text[end] == " ")
