"""Images and PDFs of a run, as files where its tool finds them: the project's own, or copies that go with the call."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from maestro_state.errors import WorkFailed
from maestro_state.models.media import kind_of, suffix_of
from maestro_state.models.run import SentItem
from maestro_state.tools import Tool
from maestro_state.tools.attachments import attached_words, holds, mention, refusal


@dataclass(slots=True)
class Attachments:
    """The files one call of a tool is given."""

    tool: Tool
    root: str  #: the project's top folder, which paths of items count from
    folder: str  #: where the tool works
    words: list[str] = field(default_factory=list)  #: further words of its command line
    named: dict[str, str] = field(default_factory=dict)  #: item → how the text sent names it
    _copies: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._copies is not None:
            shutil.rmtree(self._copies, ignore_errors=True)

    def take(self, item: SentItem, content: bytes) -> None:
        """Attach an item if it is an image or a PDF; WorkFailed when the tool takes no such file or cannot have it."""
        kind = kind_of(content)
        if kind is None:
            return
        if kind not in self.tool.takes:
            raise WorkFailed(refusal(self.tool, item, kind))
        path = self._in_project(item, content)
        if path is None and self.tool.attach:
            path = self._copy(item, content)
        if path is None:
            raise WorkFailed(
                f"{item.id} ({item.path_rel or 'no file'}) is not in {self.folder} as it was added, where "
                f"{self.tool.entry} could read it (maestro context refresh)"
            )
        self.words += attached_words(self.tool, path)
        self.named[item.id] = mention(self.tool, os.path.relpath(path, self.folder))

    def _in_project(self, item: SentItem, content: bytes) -> str | None:
        """Return where the file still is what was added; only inside of the folder the tool works in."""
        if item.path_rel is None:
            return None
        path = os.path.realpath(os.path.join(self.root, item.path_rel))
        if os.path.commonpath([path, os.path.realpath(self.folder)]) != os.path.realpath(self.folder):
            return None
        return path if holds(path, item.digest, len(content)) else None

    def _copy(self, item: SentItem, content: bytes) -> str:
        """Write the content as it was added into a folder that only this user can open; WorkFailed without room."""
        try:
            self._copies = self._copies or tempfile.mkdtemp(prefix="maestro-files-")
            path = os.path.join(self._copies, f"{item.id}{suffix_of(content)}")
            Path(path).write_bytes(content)
        except OSError as error:
            reason = f"{item.id} cannot be copied to where {self.tool.entry} would read it: {error.strerror}"
            raise WorkFailed(f"{reason} ({tempfile.gettempdir()})") from error
        return path
