"""Codex's compressed histories, with the package that unpacks them."""

from __future__ import annotations

from pathlib import Path

import zstandard

from maestro_state import Maestro
from tests.support.histories import CODEX_ID, codex_rows, json_lines, said


def test_a_compressed_history_is_read(tmp_path: Path):
    """The same conversation as unpacked; one that is damaged is named."""
    (tmp_path / "shop" / ".maestro").mkdir(parents=True)
    folder = tmp_path / "codex" / "sessions" / "2026" / "11" / "02"
    folder.mkdir(parents=True)
    path = folder / f"rollout-2026-11-02T10-00-00-{CODEX_ID}.jsonl.zst"
    environment = {"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "codex")}
    with Maestro(tmp_path / "shop", environment=environment) as maestro:
        content = json_lines(codex_rows(maestro.project.path)).encode()
        path.write_bytes(zstandard.ZstdCompressor().compress(content))
        (row,) = maestro.histories.import_("codex").imported
        assert (row.external_id, row.runs, len(said(maestro, row.session_id))) == (CODEX_ID, 2, 5)
        path.write_bytes(b"no frame at all")
        assert "cannot be unpacked" in maestro.histories.import_("codex").errors[0].reason
