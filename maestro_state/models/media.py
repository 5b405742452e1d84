"""Images and PDFs: what a content is by its first bytes, and what a file is by its name. Pure."""

from __future__ import annotations

IMAGE, PDF = "image", "pdf"

#: The word for one of each, as refusals say it.
WORDS = {IMAGE: "image", PDF: "PDF"}

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", IMAGE, ".png"), (b"\xff\xd8\xff", IMAGE, ".jpg"), (b"GIF87a", IMAGE, ".gif"),
    (b"GIF89a", IMAGE, ".gif"), (b"%PDF-", PDF, ".pdf"),
)  # fmt: skip

_SUFFIXES = {
    ".png": IMAGE, ".jpg": IMAGE, ".jpeg": IMAGE, ".gif": IMAGE, ".webp": IMAGE, ".pdf": PDF
}  # fmt: skip


def kind_of(content: bytes) -> str | None:
    """Return what a content is: image, pdf or None."""
    return _known(content)[0]


def suffix_of(content: bytes) -> str:
    """Return how the name of a file with this content ends."""
    return _known(content)[1]


def kind_of_name(path: str | None) -> str | None:
    """Return what a file of this name is, as far as the name tells."""
    dot = (path or "").rfind(".")
    return _SUFFIXES.get((path or "")[dot:].lower()) if dot >= 0 else None


def _known(content: bytes) -> tuple[str | None, str]:
    for beginning, kind, suffix in _BEGINNINGS:
        if content.startswith(beginning):
            return kind, suffix
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return IMAGE, ".webp"
    return None, ""
