"""Files that a tool is given by their path, since its model looks at them itself: images and PDFs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from maestro_state.errors import InvalidValue
from maestro_state.fs.opening import open_regular
from maestro_state.models.media import WORDS, kind_of, kind_of_name
from maestro_state.models.run import SentItem
from maestro_state.tools.tool import FILE, Tool


def check_attachable(tool: Tool, sent: Iterable[SentItem]) -> None:
    """Refuse images and PDFs that the tool cannot be given; judged by the name, before anything is sent."""
    kinds = ((item, kind_of_name(item.path_rel)) for item in sent)
    refused = [(item, kind) for item, kind in kinds if kind is not None and kind not in tool.takes]
    if refused:
        # A folder brings many at once: one command takes them all out.
        more = f", and {len(refused) - 1} more like it" if len(refused) > 1 else ""
        ids = " ".join(item.id for item, _ in refused)
        raise InvalidValue(refusal(tool, *refused[0]) + more, hint=f"maestro context remove {ids}, or another --tool")


def refusal(tool: Tool, item: SentItem, kind: str) -> str:
    """Say why an item cannot be sent to a tool."""
    name = item.path_rel or item.id
    return f"{tool.name[:80]} takes no {WORDS[kind]}s, and {item.id} ({name}) is one"


def attached_words(tool: Tool, path: str) -> list[str]:
    """Return what gives a file to the tool on its command line; nothing where the prompt names it."""
    return [word.replace(FILE, path) for word in tool.attach]


def mention(tool: Tool, path: str) -> str:
    """Return how the prompt names a file so that the tool reads it: a path inside of its folder."""
    if not tool.mentions:
        return "attached to this request"
    if tool.mentions == "quoted":
        return f"@{json.dumps(path, ensure_ascii=False)}" if not _is_plain(path) else f"@{path}"
    return "@" + "".join(char if _is_plain(char) else f"\\{char}" for char in path)


def holds(path: str, digest: str, size: int) -> bool:
    """Tell whether a path still leads to a file with this content: it may be gone, another one, or no file at all."""
    from hashlib import sha256  # 5 ms that reading does without

    try:
        with os.fdopen(open_regular(path), "rb") as file:
            now = file.read(size + 1)
    except OSError:
        return False
    return sha256(now).hexdigest() == digest


def shown_files(tool: Tool, items: Iterable[tuple[SentItem, bytes]]) -> tuple[list[str], dict[str, str]]:
    """Return how a call would be given its images and PDFs: words of its command line, and item → how the text says it.

    By the names they were added with; where a run has them is decided where it is carried out.
    """
    words: list[str] = []
    named: dict[str, str] = {}
    for item, content in items:
        if kind_of(content) in tool.takes:
            path = item.path_rel or item.id
            words += attached_words(tool, path)
            named[item.id] = mention(tool, path)
    return words, named


def _is_plain(path: str) -> bool:
    return all(char.isalnum() or char in "/._-" for char in path)
