"""Secrets in what is exported: found by the same rules as in what is added to the context. Loaded when asked for."""

from __future__ import annotations


class Secrets:
    """Finds secrets in bytes, and takes them out."""

    def redact(self, content: bytes) -> bytes:
        """Return the content with each secret replaced by what kind it was."""
        from maestro_state.secrets import redact

        return redact(content)

    def spans(self, content: bytes) -> list[tuple[int, int]]:
        """Return where secrets are."""
        from maestro_state.secrets import find_spans

        return [(span.start, span.end) for span in find_spans(content, limit=None)]
