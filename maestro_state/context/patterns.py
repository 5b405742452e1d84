"""Patterns over paths: `.gitignore` rules and globs. Pure; matching is done part by part, so no pattern is slow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple

#: A pattern between slashes; None stands for `**`.
Part = re.Pattern[str] | None


class Rule(NamedTuple):
    """One line of a `.gitignore`."""

    parts: tuple[Part, ...]
    includes: bool  #: starts with !: takes back what a rule before it excluded
    only_folders: bool


def parse_rules(text: str) -> list[Rule]:
    """Read a `.gitignore`, in its order."""
    rules = []
    for line in text.splitlines():
        if (rule := _rule(line)) is not None:
            rules.append(rule)
    return rules


def _rule(line: str) -> Rule | None:
    line = re.sub(r"(?<!\\) +\Z", "", line.rstrip("\r\n"))
    if not line or line.startswith("#"):
        return None
    includes = line.startswith("!")
    line = line.removeprefix("!")
    only_folders = line.endswith("/")
    line = line.rstrip("/") if only_folders else line
    if not line:
        return None
    # A slash anywhere but at the end ties the pattern to its folder; without one it fits at any depth.
    tied = "/" in line
    parts = split_pattern(line.removeprefix("/"))
    return Rule(parts if tied else (None, *parts), includes, only_folders)


def split_pattern(pattern: str) -> tuple[Part, ...]:
    """Turn a pattern into its parts."""
    parts: list[Part] = []
    for text in pattern.split("/"):
        if text != "**":
            parts.append(_compile(text))
        elif not parts or parts[-1] is not None:
            parts.append(None)
    return tuple(parts)


@lru_cache(maxsize=4096)
def _compile(text: str) -> re.Pattern[str]:
    # fnmatch has no backslash: an escaped character becomes a class of one. Git also writes [^x] for [!x].
    text = re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] not in "]^!\\" else found[1], text)
    return re.compile(translate(text.replace("[^", "[!")))


def matches(parts: Sequence[Part], names: Sequence[str]) -> bool:
    """Tell whether a pattern fits a whole path. `**` is any number of folders; at the end, whatever is inside."""
    # Row by row over the pattern: reachable[i] says that the parts so far can stand for the first i names.
    reachable = [True] + [False] * len(names)
    for at, part in enumerate(parts):
        row = [False] * (len(names) + 1)
        if part is None:
            least = 1 if at == len(parts) - 1 and at > 0 else 0
            for end in range(least, len(names) + 1):
                row[end] = reachable[end - least] or (end > 0 and row[end - 1])
        else:
            for end in range(1, len(names) + 1):
                row[end] = reachable[end - 1] and part.match(names[end - 1]) is not None
        reachable = row
    return reachable[-1]


def is_ignored(stack: Sequence[tuple[int, Sequence[Rule]]], names: Sequence[str], *, is_folder: bool) -> bool:
    """Tell what `.gitignore` files say about a path, nearest file and last line first.

    `stack` holds, from the outermost folder on, how many parts of the path a file's folder takes, and its rules.
    """
    for depth, rules in reversed(stack):
        below = names[depth:]
        for rule in reversed(rules):
            if (is_folder or not rule.only_folders) and matches(rule.parts, below):
                return not rule.includes
    return False


def has_magic(text: str) -> bool:
    """Tell whether a text can be a glob."""
    return any(char in text for char in "*?[")


def glob_matches(parts: Sequence[Part], pattern_names: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether a glob fits, as a shell would: a name that starts with a dot must be asked for."""
    if not matches(parts, names):
        return False
    asked = {text[0] for text in pattern_names if text.startswith(".")}
    return bool(asked) or not any(name.startswith(".") for name in names)
