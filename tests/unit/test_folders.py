"""Folders of one machine that another one has elsewhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from maestro_workers.profile import Profile

from maestro_state.errors import WorkFailed
from maestro_state.models.folders import is_below, mapped, parse_folders


def test_a_folder_is_mapped_by_whole_names():
    """The longest one counts; what only begins alike, goes up, or is relative is not mapped."""
    folders = parse_folders("/home/ana/shop=/projects/shop:/home/ana/shop/deep/=/elsewhere : /one=/")
    assert mapped(folders, "/home/ana/shop") == ("/projects/shop", "/projects/shop")
    assert mapped(folders, "/home/ana//shop/./src/") == ("/projects/shop", "/projects/shop/src")
    assert mapped(folders, "/home/ana/shop/deep/er") == ("/elsewhere", "/elsewhere/er")
    assert mapped(folders, "/one/two") == ("/", "/two")
    assert mapped(folders, "/one") == ("/", "/")
    for other in ("/home/ana/shopping", "/home/ana", "/home/ana/shop/../secret", "home/ana/shop", "", "/"):
        assert mapped(folders, other) is None
    assert mapped(parse_folders("/=/all"), "/any/thing") == ("/all", "/all/any/thing")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "/a",
        "/a=",
        "=/b",
        "/a=/b=/c",
        "a=/b",
        "/a=b",
        "/a/../b=/c",
        "/a=/b/..",
        "/a=/b:",
        "/a=/b:/a/=/c",
        "/a\n=/b",
    ],
)
def test_what_is_no_map_is_refused(text: str):
    """Before anything is mapped by half of it."""
    with pytest.raises(ValueError, match=r"is (not|mapped)"):
        parse_folders(text)


def test_below_is_by_whole_names():
    """A folder is below itself; not below one whose name only begins like its own."""
    assert is_below("/a/b/c", "/a/b")
    assert is_below("/a/b", "/a/b/")
    assert is_below("/a", "/")
    assert not is_below("/a/bc", "/a/b")
    assert not is_below("/a/b/../c", "/a/b")
    assert not is_below("/a", "/a/b")


@contextmanager
def as_anybody() -> Iterator[None]:
    """Be a user who may not enter everything, which root may."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(65_534, 65_534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_folder_that_may_not_be_entered_is_said_to_be():
    """By its name, mapped or not: else it looks as if the tool could not be started."""
    with tempfile.TemporaryDirectory(prefix="m-", dir="/tmp") as name:
        closed = Path(name, "closed")
        closed.mkdir()
        Path(name).chmod(0o755)
        profile = Profile("/elsewhere", paths={"/home/ana/shop": str(closed)})
        with as_anybody():
            assert profile.place("/home/ana/shop") == str(closed), "the control: this one may be"
        closed.chmod(0o600)
        with as_anybody():
            for asked in (str(closed), "/home/ana/shop"):
                with pytest.raises(WorkFailed, match=f"{closed} may not be entered .*user id [0-9]+"):
                    profile.place(asked)
        closed.chmod(0o700)
