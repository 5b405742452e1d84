"""JSON as people write it, with comments and commas at the end: one member put in or taken out, every other byte kept.

Pure. What is changed is found by its place in the text, so nothing is written anew that was not asked for.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_decode = json.JSONDecoder().raw_decode
#: A string, or what is not a value: strings come first, so that a comment's sign in one is none.
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
#: A string, or a comma that nothing follows.
_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])')
_BLANKS = re.compile(r"\s*")


class Member(NamedTuple):
    """Where one member of an object is."""

    name: str
    start: int  #: of its name
    value: int  #: where its value begins,
    end: int  #: and ends
    comma: int | None  #: after it


class JsonText:
    """A text that holds one object."""

    def __init__(self, text: str) -> None:
        """Read it; ValueError when it is not JSON, comments apart."""
        self.text = text
        commas = _COMMENT.sub(_blanked, text)
        self._plain = _COMMA.sub(_blanked, commas)
        self._commas = commas
        self.document: Any = json.loads(self._plain)

    def put(self, path: tuple[str, ...], value: Any) -> str:
        """Return the text with a value at a path; what is missing on the way is made, at the end of its object."""
        start = self._start()
        for depth, name in enumerate(path):
            members, close = self._members(start)
            found = next((one for one in reversed(members) if one.name == name), None)
            if found is None:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                return self._add(start, members, close, name, value)
            if depth == len(path) - 1:
                indent = self._indent_at(found.start)
                return self.text[: found.value] + self._dumped(value, indent) + self.text[found.end :]
            start = found.value
        raise ValueError("no path")

    def drop(self, path: tuple[str, ...]) -> str:
        """Return the text without what is at a path, and without objects in which nothing is left then."""
        start = self._start()
        for depth, name in enumerate(path):
            members, close = self._members(start)
            found = next((one for one in reversed(members) if one.name == name), None)
            if found is None:
                return self.text
            if depth == len(path) - 1 or self._holds_only(found.value, path[depth + 1 :]):
                return self._without(members, members.index(found), start, close)
            start = found.value
        return self.text

    def _start(self) -> int:
        return self._skip(0)

    def _skip(self, at: int) -> int:
        found = _BLANKS.match(self._plain, at)
        return found.end() if found else at

    def _members(self, start: int) -> tuple[list[Member], int]:
        """Return the members of the object that begins at a place, and where it is closed."""
        members: list[Member] = []
        at = self._skip(start + 1)
        while self._plain[at] != "}":
            if self._plain[at] == ",":
                at = self._skip(at + 1)
            name, end = _decode(self._plain, at)
            value = self._skip(self._skip(end) + 1)
            _, end = _decode(self._plain, value)
            after = _BLANKS.match(self._commas, end)
            comma = after.end() if after and self._commas[after.end()] == "," else None
            members.append(Member(name, at, value, end, comma))
            at = self._skip(end)
        return members, at

    def _holds_only(self, start: int, path: tuple[str, ...]) -> bool:
        """Tell whether an object has nothing but what is at a path in it: no comment either."""
        if self._plain[start] != "{":
            return False
        members, close = self._members(start)
        if [one.name for one in members] != [path[0]]:
            return False
        one = members[0]
        end = one.end if one.comma is None else one.comma + 1
        if self.text[start + 1 : one.start].strip() or self.text[end:close].strip():
            return False
        return len(path) == 1 or self._holds_only(one.value, path[1:])

    def _add(self, start: int, members: list[Member], close: int, name: str, value: Any) -> str:
        """Add a member after all others, in the way they are written."""
        text, last = self.text, members[-1] if members else None
        kept = len(text[:close].rstrip())  # comments before the end belong to what is there
        before, end = text[:kept], text[kept:]
        if last and last.comma is None:
            before = f"{text[: last.end]},{text[last.end : kept]}"
        if last and "\n" not in text[start:close]:
            return f"{before} {json.dumps(name)}: {self._line(value)}{',' if last.comma is not None else ''}{end}"
        outer = self._indent_at(start)
        indent = self._indent_at(last.start) if last else outer + self._unit()
        added = f"{self._newline()}{indent}{json.dumps(name)}: {self._dumped(value, indent)}"
        if last and last.comma is not None:
            added += ","
        if not members and "\n" not in text[kept:close]:
            end = f"{self._newline()}{outer}{text[close:]}"
        return f"{before}{added}{end}"

    def _without(self, members: list[Member], number: int, start: int, close: int) -> str:
        """Take a member out; one that was the last takes the comma before it along, unless it had one itself."""
        text, one = self.text, members[number]
        begin = len(text[: one.start].rstrip())
        end = one.end if one.comma is None else one.comma + 1
        if "\n" not in text[end : self._skip(end)] and self._ends_a_comment(begin):
            begin, end = one.start, self._skip(end)  # what follows in its line must not fall into that comment
        if len(members) == 1:
            is_bare = begin == start + 1 and not text[end:close].strip()
            return text[:begin] + text[close if is_bare else end :]
        before = members[number - 1] if number else None
        if one.comma is not None or before is None or before.comma is None:
            return text[:begin] + text[end:]
        return text[: before.comma] + text[before.comma + 1 : begin] + text[end:]

    def _ends_a_comment(self, at: int) -> bool:
        """Tell whether a place is the end of a comment that goes to the end of its line."""
        return any(one.end() == at and one[0].startswith("//") for one in _COMMENT.finditer(self.text))

    def _indent_at(self, at: int) -> str:
        """Return the blanks that the line of a place begins with."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _unit(self) -> str:
        found = re.search(r'\n([ \t]+)"', self.text)
        return found[1] if found else "  "

    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _dumped(self, value: Any, indent: str) -> str:
        if "\n" not in self.text.strip() and self.document:
            return self._line(value)
        dumped = json.dumps(value, indent=self._unit(), ensure_ascii=False)
        return dumped.replace("\n", self._newline() + indent)

    def _line(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)


def _blanked(found: re.Match[str]) -> str:
    """Return blanks in the place of what is no value, so that places stay what they are."""
    said = found[0]
    return said if said.startswith('"') else re.sub(r"[^\n]", " ", said)
