"""Images and PDFs reach a tool by their path, or not at all; never as text."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import pytest
from maestro_workers.attachments import Attachments
from msgspec.structs import replace

from maestro_state.errors import InvalidValue, WorkFailed
from maestro_state.models.media import kind_of, kind_of_name
from maestro_state.models.run import SentItem
from maestro_state.tools import resolve
from maestro_state.tools.attachments import check_attachable, shown_files
from maestro_state.tools.rendering import render

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
PDF = b"%PDF-1.7\n" + bytes(64)


def sent(path: str | None, content: bytes) -> SentItem:
    """Return an item as a run is sent it."""
    digest = hashlib.sha256(content).hexdigest()
    return SentItem(id="ctx-0001", kind="file", snapshot_blob="b", digest=digest, path_rel=path)


def test_what_a_content_is_shows_in_its_first_bytes():
    """By bytes where there are some, by the name before."""
    contents = (PNG, PDF, b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF....WEBPVP8 ", b"RIFF....WAVE", b"text", b"")
    assert [kind_of(one) for one in contents] == ["image", "pdf", "image", "image", "image", None, None, None]
    names = ("a.PNG", "b.pdf", "c/d.jpeg", "png", "x.png.txt", None)
    assert [kind_of_name(one) for one in names] == ["image", "pdf", "image", None, None, None]


@pytest.mark.parametrize(
    ("tool", "words", "said"),
    [
        ("claude", [], '@"a dir/dot.png"'),
        ("gemini", [], "@a\\ dir/dot.png"),
        ("qwen", [], "@a\\ dir/dot.png"),
        ("codex", ["--image={path}"], "attached to this request"),
        ("opencode", ["-f", "{path}"], "attached to this request"),
        ("llm", ["-a", "{path}"], "attached to this request"),
    ],
)
def test_a_file_of_the_project_is_given_by_its_path(tmp_path: Path, tool: str, words: list[str], said: str):
    """Each tool by its own means, and what is sent as text says where it is, not what is in it."""
    path = tmp_path / "a dir" / "dot.png"
    path.parent.mkdir()
    path.write_bytes(PNG)
    item = sent("a dir/dot.png", PNG)
    with Attachments(resolve(tool), str(tmp_path), str(tmp_path)) as files:
        files.take(item, PNG)
        assert files.words == [word.format(path=path) for word in words]
        text = render(b"what is it?", [(item, PNG)], files.named)
    assert said.encode() in text
    assert b"base64" not in text
    assert path.exists()
    assert shown_files(resolve(tool), [(item, PNG)])[1]["ctx-0001"] == said


def test_what_the_project_has_not_any_more_is_copied_or_refused(tmp_path: Path):
    """The tool sees what was added: from a private copy that is gone afterwards, or the run says what to do."""
    (tmp_path / "dot.png").write_bytes(PNG + b"changed")
    item = sent("dot.png", PNG)
    with Attachments(resolve("codex"), str(tmp_path), str(tmp_path)) as files:
        files.take(item, PNG)
        copy = Path(files.words[0].removeprefix("--image="))
        assert copy.read_bytes() == PNG
        assert copy.suffix == ".png"
        assert copy.parent.stat().st_mode & 0o077 == 0
    assert not copy.exists()
    with (
        Attachments(resolve("claude"), str(tmp_path), str(tmp_path)) as files,
        pytest.raises(WorkFailed, match="refresh"),
    ):
        files.take(item, PNG)


def test_without_a_place_for_the_copy_the_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As on a full disk: a reason, not a worker that ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not-there"))
    with (
        Attachments(resolve("codex"), str(tmp_path), str(tmp_path)) as files,
        pytest.raises(WorkFailed, match=r"ctx-0001 cannot be copied .*No such file"),
    ):
        files.take(sent("dot.png", PNG), PNG)


def test_a_path_that_leads_out_is_not_followed(tmp_path: Path):
    """An item's path, or a link, that leads out of the folder the tool works in names no file of it."""
    inside = tmp_path / "project"
    inside.mkdir()
    (tmp_path / "secret.png").write_bytes(PNG)
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    for path in ("../secret.png", "link.png"):
        with Attachments(resolve("gemini"), str(inside), str(inside)) as files, pytest.raises(WorkFailed):
            files.take(sent(path, PNG), PNG)


def test_a_tool_that_takes_no_such_file_refuses_it(tmp_path: Path):
    """Before the run by the name, in the run by the bytes; a text is everybody's."""
    for tool, path, content in (("codex", "a.pdf", PDF), ("echo", "a.png", PNG), ("sort -u", "a.png", PNG)):
        with pytest.raises(InvalidValue, match=r"takes no (image|PDF)s, and ctx-0001 \(a\."):
            check_attachable(resolve(tool), [sent(path, content)])
        with Attachments(resolve(tool), str(tmp_path), str(tmp_path)) as files, pytest.raises(WorkFailed):
            files.take(sent(None, content), content)
    check_attachable(resolve("sort -u"), [sent("a.txt", b"text")])
    several = [replace(sent(path, b""), id=f"ctx-000{n}") for n, path in enumerate(("a.png", "b.txt", "c.pdf"), 1)]
    with pytest.raises(InvalidValue, match="and 1 more like it") as all_of_them:
        check_attachable(resolve("echo"), several)
    assert all_of_them.value.hint == "maestro context remove ctx-0001 ctx-0003, or another --tool"
    with Attachments(resolve("echo"), str(tmp_path), str(tmp_path)) as files:
        files.take(sent("a.txt", b"text"), b"text")
        assert (files.words, files.named) == ([], {})


def test_a_pipe_in_the_place_of_a_picture_is_not_waited_for(tmp_path: Path):
    """What was added goes with the call as a copy; for a tool that takes no copies the run says what is wrong."""
    os.mkfifo(tmp_path / "dot.png")
    item = sent("dot.png", PNG)
    with Attachments(resolve("codex"), str(tmp_path), str(tmp_path)) as files:
        files.take(item, PNG)
        assert not files.words[0].endswith(str(tmp_path / "dot.png"))
    with Attachments(resolve("claude"), str(tmp_path), str(tmp_path)) as files, pytest.raises(WorkFailed, match="dot"):
        files.take(item, PNG)
