"""Patterns over paths, by pathspec: `.gitignore` rules, and globs as a shell has them. Pure.

A rule may come from an untrusted repository, so none may be slow: pathspec's expressions are made atomic, which leaves
nothing to try again. Costs an import: only for folders and globs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

#: `/**` at the end: whatever is inside, which is any name at any depth.
_INSIDE = re.compile(r"/\*\*(/?)\s*\Z")

#: What pathspec makes of `*` and `*/`, which are to fit a whole path like all others.
_WHOLE = {".": ".+", "(?P<ps_d>/)": ".+/"}

#: A star with another behind it in the same part of a path, and what is between the two.
_STAR = re.compile(r"\[\^/\]\*((?:\[\^/\](?!\*)|[^/])*?)(?=\[\^/\]\*)")

#: `**` with another behind it, and what is between the two.
_FOLDERS = re.compile(r"(\^\(\?:\.\+/\)\?|\(\?:/\.\+\)\?)(.*?)(?=\(\?:/\.\+\)\?)")
_SHORTEST = {"^(?:.+/)?": "^(?:.+?/)??", "(?:/.+)?": "(?:/.+?)??"}

#: A set of characters, or one that is escaped.
_SET = re.compile(r"\\.|\[\^?\]?[^\]]*\]")


class Rule(GitIgnoreSpecPattern):
    """One line of a `.gitignore`, for whole paths (a folder's with / at its end); `include` is to ignore what fits."""

    @classmethod
    def pattern_to_regex(cls, pattern: str) -> tuple[str | None, bool | None]:  # type: ignore[override]
        """Translate a line. The first place where a piece fits is as good as any later one, so it is kept."""
        regex, include = super().pattern_to_regex(_INSIDE.sub(r"/**/*\1", pattern))
        if regex is not None:
            regex = _STAR.sub(r"(?>[^/]*?\1)", _WHOLE.get(regex, regex))
            regex = _FOLDERS.sub(lambda found: f"(?>{_SHORTEST[found[1]]}{found[2]}(?=/))", regex)
            regex = f"(?s:{_SET.sub(_inside_a_part, regex)})"  # a name may hold a line end
        return regex, include

    def fits(self, path: str) -> bool:
        """Tell whether just this path fits, not whether a folder above it does."""
        return self.regex is not None and self.regex.fullmatch(path) is not None


def _inside_a_part(found: re.Match[str]) -> str:
    """Keep a set of characters from fitting the slash between two parts, as git does."""
    return found[0] if found[0].startswith("\\") or found[0] == "[^/]" else f"(?!/){found[0]}"


def parse_rules(text: str) -> list[Rule]:
    """Read a `.gitignore`, in its order."""
    return [rule for line in text.split("\n") if (rule := _rule(line)) is not None]


def _rule(line: str) -> Rule | None:
    """Compile a line; None for one that is not valid, which git passes over too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about [[ in a pattern, which is somebody else's
            return Rule(line)
    except (ValueError, re.error):
        return None


def is_ignored(stack: Sequence[tuple[int, Sequence[Rule]]], names: Sequence[str], *, is_folder: bool) -> bool:
    """Tell what `.gitignore` files say about a path, nearest file and last line first.

    `stack` holds, from the outermost folder on, how many parts of the path a file's folder takes, and its rules.
    """
    for depth, rules in reversed(stack):
        below = "/".join(names[depth:]) + ("/" if is_folder else "")
        for rule in reversed(rules):
            if rule.fits(below):
                return bool(rule.include)
    return False


class Glob:
    """A glob as a shell has it: a name that starts with a dot must be asked for. `**` is any number of folders."""

    def __init__(self, pattern: str) -> None:
        # Below a folder of its own, or a single name would fit at any depth.
        self._rule = _rule(f"top/{pattern}")
        self._takes_hidden = any(name.startswith(".") for name in pattern.split("/"))

    def fits(self, path: str) -> bool:
        if self._rule is None or not self._rule.fits(f"top/{path}"):
            return False
        return self._takes_hidden or not any(name.startswith(".") for name in path.split("/"))
