"""What a file holds, in two facts."""

from __future__ import annotations

import msgspec


class FileEntry(msgspec.Struct, frozen=True, array_like=True):
    """What a file must be."""

    sha256: str
    size: int
