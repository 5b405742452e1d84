"""Codex's histories: everything said once, tokens by response, turns by their ids."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from maestro_state import Maestro
from tests.support.histories import CODEX_ID, archived, codex_rows, json_lines, said


@pytest.fixture
def maestro(tmp_path: Path):
    (tmp_path / "shop" / ".maestro").mkdir(parents=True)
    with Maestro(tmp_path / "shop", environment={"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "codex")}) as one:
        yield one


def write(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    folder = tmp_path / "codex" / "sessions" / "2026" / "11" / "02"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-2026-11-02T10-00-00-{CODEX_ID}.jsonl"
    path.write_text(json_lines(rows))
    return path


def test_a_conversation_with_codex(maestro: Maestro, tmp_path: Path):
    """Each message once, tokens by response and not by running totals, an aborted turn canceled."""
    write(tmp_path, codex_rows(maestro.project.path))
    (row,) = maestro.histories.import_("codex").imported
    assert (row.external_id, row.runs) == (CODEX_ID, 2)
    assert said(maestro, row.session_id) == [
        ("user", "list the files"),
        ("assistant", ""),
        ("tool", "a.py"),
        ("assistant", "there is a.py"),
        ("user", "and now delete it"),
    ]
    tokens = row.tokens
    assert (tokens.input, tokens.cache_read, tokens.output, tokens.reasoning) == (90, 140, 30, 5)
    assert [one.status for one in archived(maestro, row.session_id).runs()] == ["success", "canceled"]


def test_running_totals_of_earlier_versions(maestro: Maestro, tmp_path: Path):
    """Without records by response, the growth of the totals counts; the same total told twice is once."""
    rows = [row for row in codex_rows(maestro.project.path) if row["type"] != "token_usage_record"]
    rows += [row for row in rows if row["payload"].get("type") == "token_count"][-1:]
    write(tmp_path, rows)
    (row,) = maestro.histories.import_("codex").imported
    assert (row.tokens.input, row.tokens.cache_read, row.tokens.output) == (90, 140, 30)


def test_turns_without_ids_of_earlier_versions(maestro: Maestro, tmp_path: Path):
    """Where turns have no ids, each question begins one; going on is only the new."""
    known = ("session_meta", "response_item", "event_msg")
    rows = [row for row in codex_rows(maestro.project.path) if row["type"] in known and "turn_id" not in row["payload"]]
    write(tmp_path, rows[:10])
    (row,) = maestro.histories.import_("codex").imported
    write(tmp_path, rows)
    (again,) = maestro.histories.import_("codex").imported
    assert (row.session_id, again.status, again.runs) == (again.session_id, "updated", 2)
    assert len(said(maestro, row.session_id)) == 5


def test_a_compressed_history_without_what_unpacks_it(
    maestro: Maestro, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is named with what is missing, and stops no other."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = write(tmp_path, codex_rows(maestro.project.path))
    path.with_name("rollout-2026-11-02T11-00-00-x.jsonl.zst").write_bytes(b"(\xb5/\xfd")
    report = maestro.histories.import_("codex")
    assert len(report.imported) == 1
    assert "pip install zstandard" in report.errors[0].reason
