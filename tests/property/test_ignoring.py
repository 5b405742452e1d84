"""Our reading of `.gitignore` beside git's own, and globs beside the standard library's."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from maestro_state.context import listing
from maestro_state.context.patterns import glob_matches, is_ignored, parse_rules, split_pattern
from maestro_state.context.reading import Tree

NAMES = st.sampled_from(["a", "b", "ab", "a.b", "x.log", "build", ".hidden", "a b", "c"])
PIECES = st.sampled_from(
    ["a", "b", "*", "?", "**", "a*", "*.log", "*.b", "[ab]", "[!a]", "build", ".hidden", "a?", "x.*", "\\a", "c"]
)
RULE = st.builds(
    lambda bang, lead, parts, tail: bang + lead + "/".join(parts) + tail,
    st.sampled_from(["", "", "", "!"]), st.sampled_from(["", "", "/"]),
    st.lists(PIECES, min_size=1, max_size=3), st.sampled_from(["", "", "/"]),
)  # fmt: skip
RULES = st.lists(RULE | st.sampled_from(["", "# comment", "\\#x", "a  ", "  "]), max_size=5).map("\n".join)
TREE = st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=10)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is what we are compared with")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TREE, RULES, RULES)
@example(["build/a", "build/b", "a/build/c"], "build/*\n!build/a", "")
@example(["a/b/c", "a/c"], "a/**/c", "")
@example(["a/x.log", "x.log"], "*.log", "!x.log")
@example(["a/b"], "a/**", "")
@example(["a/b/c"], "/**/c/", "")
def test_we_list_what_git_lists(paths: list[str], root_rules: str, folder_rules: str):
    """For any files and rules, the walk without git finds exactly the files git lists."""
    root = Path(tempfile.mkdtemp(prefix="m-ignore-"))
    try:
        env = {"PATH": os.environ["PATH"], "HOME": str(root)}
        subprocess.run(["git", "init", "-q", "--template=", str(root)], check=True, env=env)
        for path in paths:
            target = root / path
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.is_dir():
                    target.write_text("x")
            except (FileExistsError, NotADirectoryError):
                continue  # a file where another path wants a folder
        (root / ".gitignore").write_text(root_rules)
        if (root / "a").is_dir():
            (root / "a" / ".gitignore").write_text(folder_rules)
        by_git = listing._by_git(str(root))
        assert by_git is not None
        with Tree(root) as tree:
            assert sorted(listing._by_walking(tree, ".")) == sorted(set(by_git))
    finally:
        shutil.rmtree(root)


@given(st.lists(PIECES, min_size=1, max_size=4), st.lists(NAMES, min_size=1, max_size=4))
def test_globs_fit_as_in_a_shell(pieces: list[str], names: list[str]):
    """Without ** and dots, a glob fits a path exactly if each part fits its part."""
    from fnmatch import fnmatchcase

    if "**" in pieces or "\\a" in pieces or any(name.startswith(".") for name in (*names, *pieces)):
        return
    wanted = len(pieces) == len(names) and all(map(fnmatchcase, names, pieces))
    assert glob_matches(split_pattern("/".join(pieces)), pieces, names) == wanted


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("**/*.py", "a.py", True), ("**/*.py", "x/y/a.py", True), ("src/**", "src/a/b", True), ("src/**", "src", False),
        ("*.py", "x/a.py", False), ("**/*.py", ".venv/a.py", False), (".venv/*.py", ".venv/a.py", True),
        ("*", ".env", False), (".*", ".env", True),
    ],
)  # fmt: skip
def test_globs(pattern: str, path: str, fits: bool):
    """`**` spans folders, and names that start with a dot must be asked for."""
    assert glob_matches(split_pattern(pattern), pattern.split("/"), path.split("/")) == fits


def test_no_pattern_is_slow():
    """A pattern made to be slow is answered: matching goes part by part, without backtracking over the path."""
    rules = parse_rules("\n".join(["a*" * 200 + "b", "**/" * 200 + "x", "/".join(["*a*"] * 100)]))
    names = ["a" * 2000] * 30
    assert not is_ignored([(0, rules)], names, is_folder=False)
