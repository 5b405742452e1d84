"""Resources that are a text somebody else wrote: the text as it is, and behind it what says so.

Answers in JSON have their notice inside. A text has no place for one that its own words could not imitate, so the mark
is a part of its own, and the text stays byte for byte what it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from mcp.server.lowlevel.helper_types import ReadResourceContents

from maestro_state.mcp.descriptions import MARK
from maestro_state.mcp.stdio import StdioServer

if TYPE_CHECKING:
    from mcp_types import InputRequiredResult

#: What hosts find beside the text, and models in the part behind it.
SOURCE = "maestro/source"


class Written(str):
    """A text of others, with who wrote it, when, and by which tool, as far as that is known."""

    __slots__ = ("source",)

    source: dict[str, Any]

    @classmethod
    def by(cls, text: str, **source: Any) -> Written:
        """Return a text with where it is from; what is not known of that is left out."""
        written = cls(text)
        written.source = {name: value for name, value in source.items() if value}
        return written


class MarkingServer(StdioServer):
    """The server, of which every text of others is marked as data."""

    async def read_resource(
        self, uri: Any, context: Any = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        """Read it; behind a text of others say that it is one."""
        found = await super().read_resource(uri, context)
        if not isinstance(found, list):
            return found
        parts = []
        for one in found:
            parts.append(one)
            if isinstance(one.content, Written):
                one.meta = {**(one.meta or {}), SOURCE: one.content.source}
                mark = MARK.format(msgspec.json.encode(one.content.source).decode())
                parts.append(ReadResourceContents(content=mark, mime_type="text/plain", meta=None))
        return parts
