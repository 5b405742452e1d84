"""Our reading of `.gitignore` beside git's own, and globs beside the standard library's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from maestro_state.context import listing
from maestro_state.context.patterns import Glob, is_ignored, parse_rules
from maestro_state.context.reading import Tree

NAMES = st.sampled_from(["a", "b", "ab", "a.b", "x.log", "build", ".hidden", "a b", "c", "a\nb"])
PIECES = st.sampled_from(
    [
        "a",
        "b",
        "*",
        "?",
        "**",
        "a*",
        "*.log",
        "*.b",
        "[ab]",
        "[!a]",
        "build",
        ".hidden",
        "a?",
        "x.*",
        "\\a",
        "c",
        "*a*b*",
        "a[!x]b",
        "[!b]*",
        "*[.b]*",
        "[+-9]",
    ]
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
@example(["a/b", "ab"], "a[!x]b", "")
@example(["a\nb/x.log", "a\nb/c"], "*.log\n**/c", "")
@example(["a/b", "ab"], "[z-a]\na\\\n[a", "")
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
    assert Glob("/".join(pieces)).fits("/".join(names)) == wanted


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
    assert Glob(pattern).fits(path) == fits


def test_no_pattern_is_slow():
    """A pattern made to be slow is answered: nothing is tried again with another length."""
    hostile = ["a*" * 200 + "b", "**/" * 200 + "x", "/".join(["*a*"] * 100), "**/*a*/" * 60 + "b", "a*/**/" * 50 + "b"]
    rules = parse_rules("\n".join(hostile))
    assert len(rules) == len(hostile)
    for names in (["a" * 2000] * 30, ["a"] * 99):
        assert not is_ignored([(0, rules)], names, is_folder=False)


def test_the_library_is_imported_for_folders_and_globs_only(tmp_path: Path):
    """A file that is named costs no import of pathspec; a folder that git does not list does."""
    (tmp_path / "a.txt").write_text("x")
    program = (
        "import sys; from maestro_state.context.chosen_files import choose\n"
        "from maestro_state.context.reading import Tree\n"
        "choose(Tree(sys.argv[1]), [sys.argv[2]], folder=sys.argv[1], kind='file', follow=False, limit=9)\n"
        "print('pathspec' in sys.modules)"
    )

    def imported(argument: str) -> str:
        command = [sys.executable, "-c", program, str(tmp_path), argument]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert [imported("a.txt"), imported("."), imported("*.txt")] == ["False", "True", "True"]
