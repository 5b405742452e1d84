"""No path leads out of the project: a corpus of names, links of every kind, and links swapped while files are read."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from maestro_state.context import listing
from maestro_state.context.chosen_files import choose
from maestro_state.context.reading import Place, Tree
from maestro_state.errors import MaestroError, PathRefused

SECRET = b"outside the project"
LIMIT = 1 << 20


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder beside the project with something in it that must not be read."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    """Return a project full of ways out."""
    root = tmp_path / "root"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "file").write_bytes(b"inside")
    (root / ".maestro" / "config").mkdir(parents=True)
    (root / ".maestro" / "config" / "tools.json").write_bytes(SECRET)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_bytes(SECRET)
    (root / "link-file").symlink_to(outside / "secret")
    (root / "link-folder").symlink_to(outside)
    (root / "link-up").symlink_to("../..")
    (root / "link-git").symlink_to(".git/config")
    (root / "link-inside").symlink_to("src/file")
    (root / "link-loop").symlink_to("link-loop")
    (root / "link-gone").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(root / "socket"))
    return root


def read_all(root: Path, argument: str, **options: bool) -> list[bytes]:
    """Choose and read what an argument leads to."""
    with Tree(root) as tree:
        choice = choose(
            tree, [argument], folder=str(root), kind="file", follow=options.get("follow", False), limit=LIMIT
        )
        return [tree.read(entry.place, LIMIT).data for entry in choice.entries if not isinstance(entry, bytes)]


PARTS = [
    "..", "../", "....//", ".", "./", "//", "/", "~", "%2e%2e", "..%2f", "..\\", "\\", "C:\\", "\0", "\n", "\u202e",
    "\u2024", "．．", "link-file", "link-folder", "link-up", "link-git", "link-loop", "link-gone", "pipe", "socket",
    ".git", ".maestro", "{a}", ":", "*", "a" * 300,
]  # fmt: skip


def corpus(outside: Path) -> list[str]:
    """Return more than 200 names, most of which try to get out."""
    pairs = [f"{one}/{other}" for one in PARTS for other in ("secret", "outside/secret", "config", "..", "link-file")]
    ends = [f"src/{one}" for one in PARTS] + [f"src/../{one}/secret" for one in PARTS]
    climbing = ["../outside/secret", "src/../../outside/secret", "src/deep/../../../outside/secret"]
    absolute = [str(outside / "secret"), f"/proc/self/root{outside}/secret", "/etc/passwd", "/dev/zero"]
    return [*PARTS, *pairs, *ends, *climbing, *absolute, "/proc/self/environ"]


def test_no_name_reads_anything_outside(root: Path, outside: Path):
    """Of more than 200 names, none yields a byte that is not in the project; each is refused with a reason."""
    names = corpus(outside)
    assert len(names) >= 200
    refused = 0
    for name in names:
        try:
            found = read_all(root, name)
        except MaestroError:
            refused += 1
            continue
        assert set(found) <= {b"inside"}, name
    assert refused >= 200
    # the control: plain opening does get out
    assert (root / "link-folder" / "secret").read_bytes() == SECRET


def test_links(root: Path):
    """A link to a file inside is that file; one out is refused unless meant; folders out are refused always."""
    assert read_all(root, "link-inside") == [b"inside"]
    for name in ("link-file", "link-folder/secret"):
        with pytest.raises(PathRefused):
            read_all(root, name)
        assert read_all(root, name, follow=True) == [SECRET]
    for name in ("link-folder", "link-up", "link-git", ".git/config", ".maestro/config/tools.json", "pipe", "socket"):
        with pytest.raises(PathRefused):
            read_all(root, name, follow=True)
    assert read_all(root, ".") == [b"inside"]


def test_a_folder_says_what_it_left_out(root: Path):
    """Links, pipes and sockets met on the way are skipped with the reason, and nothing is opened."""
    with Tree(root) as tree:
        choice = choose(tree, ["."], folder=str(root), kind=None, follow=True, limit=LIMIT)
    reasons = {one.path: one.reason for one in choice.skipped}
    assert reasons["link-file"] == "a link; name it to add it"
    assert reasons["pipe"] == reasons["socket"] == "not a regular file"
    assert not [path for path in reasons if path.startswith((".git", ".maestro"))]


def test_links_swapped_in_a_loop_lead_nowhere(root: Path, outside: Path):
    """While a folder is swapped for a link out and back, ten thousand reads yield the inside file or a refusal."""
    (outside / "file").write_bytes(SECRET)
    target, aside, link = root / "src", root / "aside", root / "link"
    link.symlink_to(outside)
    stopped = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not stopped.is_set():
            target.rename(aside)
            link.rename(target)
            target.rename(link)
            aside.rename(target)
            swaps += 1

    thread = threading.Thread(target=swap)
    thread.start()
    place = Place("src/file", "src/file", is_outside=False)
    inside = refused = 0
    try:
        while inside + refused < 10_000:
            with Tree(root) as tree:
                try:
                    assert tree.read(place, LIMIT).data == b"inside"
                    inside += 1
                except MaestroError:
                    refused += 1
    finally:
        stopped.set()
        thread.join()
    assert swaps > 0
    assert inside > 0


def test_a_link_put_in_place_after_looking_is_not_followed(root: Path, outside: Path):
    """A folder that becomes a link between looking and opening is refused; plain opening, the control, gets out."""
    (outside / "file").write_bytes(SECRET)
    with Tree(root) as tree:
        place = tree.place(str(root), "src/file", follow=False)
        assert not (root / "src").is_symlink()
        (root / "src").rename(root / "aside")
        (root / "src").symlink_to(outside)
        with pytest.raises(PathRefused):
            tree.read(place, LIMIT)
        assert (root / "src" / "file").read_bytes() == SECRET


@pytest.mark.skipif(shutil.which("git") is None, reason="the control is git itself")
def test_an_index_made_by_hand_names_nothing_outside(tmp_path: Path, outside: Path):
    """A repository whose index lists ../outside/secret does not get it added; git itself, the control, lists it."""
    root = tmp_path / "repository"
    (root / "aa" / "outside").mkdir(parents=True)
    (root / "aa" / "outside" / "secret").write_bytes(b"x")
    (root / "file").write_bytes(b"inside")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    index = (root / ".git" / "index").read_bytes()[:-20].replace(b"aa/outside/secret", b"../outside/secret")
    (root / ".git" / "index").write_bytes(index + hashlib.sha1(index).digest())
    (root / "aa" / "outside" / "secret").unlink()

    assert "../outside/secret" in (listing._by_git(str(root)) or [])
    assert read_all(root, ".") == [b"inside"]
    with Tree(root) as tree:
        for path in ("../outside/secret", "aa/../../outside/secret", "aa//x", "aa/./../../outside/secret"):
            with pytest.raises(PathRefused):
                tree.read(Place(path, path, is_outside=False), LIMIT)


def test_names_that_are_no_unicode_are_refused(root: Path):
    """A name that is not UTF-8 is refused when named, and skipped in a folder."""
    os.close(os.open(os.fsencode(root) + b"/src/\xff", os.O_CREAT | os.O_WRONLY))
    with pytest.raises(PathRefused, match="not UTF-8"):
        read_all(root, os.fsdecode(b"src/\xff"))
    assert read_all(root, "src") == [b"inside"]
