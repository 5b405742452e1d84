"""The formats of the past: what each shape becomes, and what is refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from maestro_state.discuss.finding import find, read_path
from maestro_state.discuss.legacy import final_of
from maestro_state.discuss.migration import candidates, migrate
from maestro_state.errors import DiscussionNotFound, FileCorrupt
from maestro_state.mirror.layouts.discussion import DiscussionFiles
from maestro_state.models.discussion import Discussion

OPERATIONS = [{"op_type": "add_track", "data": {"track_name": "T"}}]
FINAL = {"patch_operations": OPERATIONS}


def artifact(tmp_path: Path, **fields: Any) -> Discussion:
    """Write an artefact and read it."""
    path = tmp_path / "discuss_phase_20251227_143025_results.json"
    path.write_text(json.dumps({"session_id": "discuss_phase_20251227_143025", **fields}))
    return read_path(path)


def work_session(tmp_path: Path, crumbs: dict[str, dict[str, Any]], **fields: Any) -> Discussion:
    """Write a work session and read it."""
    folder = tmp_path / "11c021f4-300b-488e-9e8a-1c370c5c41ec"
    folder.mkdir()
    record = {"session_id": folder.name, "session_type": "discussion", "created": "2025-12-27T10:00:00", **fields}
    (folder / "session.json").write_text(json.dumps(record))
    for name, crumb in crumbs.items():
        (folder / "breadcrumbs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "breadcrumbs" / name).write_text(json.dumps(crumb))
    return read_path(folder)


def shape(found: Discussion) -> list[tuple[str, Any]]:
    """Return types and what was said."""
    return [(one.type, one.payload.get("content", one.payload)) for one in found.transcript.events]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"transcript": {}, "patch_operations": OPERATIONS}, [("final_json", FINAL)]),
        ({"transcript": [], "patch_operations": []}, [("final_json", {"patch_operations": []})]),
        ({"initial_prompt": "p"}, [("user_message", "p")]),
        ({"initial_prompt": "p", "transcript": None, "patch_operations": None}, [("user_message", "p")]),
        ({"initial_prompt": "p", "transcript": [{"role": "user", "content": "q"}]}, [("user_message", "q")]),
        ({"transcript": {"messages": [{"role": "AI", "text": "a"}]}}, [("assistant_message", "a")]),
        ({"transcript": {"final_json": FINAL}, "patch_operations": []}, [("final_json", FINAL)]),
        ({"transcript": [{"type": "final_json", "payload": FINAL}], "patch_operations": []}, [("final_json", FINAL)]),
        ({"transcript": [{"type": "error", "payload": {"message": "m"}}]}, [("error", {"message": "m"})]),
    ],
)  # fmt: skip
def test_every_shape_of_an_artefact(tmp_path: Path, fields: dict[str, Any], wanted: list[tuple[str, Any]]):
    """A transcript may be an object or a list, of events or of messages; its final_json wins over patch_operations."""
    found = artifact(tmp_path, **fields)
    assert shape(found) == wanted
    is_final = any(kind == "final_json" for kind, _ in wanted)
    assert (found.meta.status, found.meta.final_json_present) == ("closed" if is_final else "open", is_final)


def test_an_artefact_keeps_its_record(tmp_path: Path):
    """Context, contract, engine, model and times come over; what is missing is made of what there is."""
    context = {"kind": "phase", "ref": "p1", "router_reason": "asked"}
    full = artifact(tmp_path, timestamp="2025-12-27T14:30:25.5+02:00", engine="qwen", model="m", context=context,
                    contract_type="task", initial_prompt="p")  # fmt: skip
    assert full.meta.created_at == "2025-12-27T12:30:25.500000"
    assert (full.meta.context.ref, full.meta.contract_type, full.meta.engine) == ("p1", "task", "qwen")
    bare = artifact(tmp_path, context={"kind": "phase"})
    assert (bare.meta.contract_type, bare.meta.created_at) == ("phase", "2025-12-27T14:30:25.000000")
    strange = artifact(tmp_path, context={"kind": 5}, contract_type="moon", engine=3)
    assert (strange.meta.contract_type, strange.meta.context.kind) == ("global", "global")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"transcript": "text"}, "neither a list nor an object"),
        ({"transcript": ["text"]}, "entry 1"),
        ({"transcript": [{"role": "robot", "content": "x"}]}, "entry 1"),
        ({"transcript": [{"role": "user"}]}, "entry 1"),
        ({"patch_operations": {}}, "patch_operations"),
        ({"session_id": "../../etc"}, "cannot name a folder"),
        ({"session_id": 5}, "cannot name a folder"),
        ({"transcript": [{"type": "final_json", "payload": FINAL}] * 2}, "more than one final_json"),
    ],
)
def test_what_is_no_artefact_is_refused_with_a_reason(tmp_path: Path, fields: dict[str, Any], says: str):
    """A file of another shape is not guessed at."""
    with pytest.raises(FileCorrupt, match=says):
        artifact(tmp_path, **fields)


def test_breadcrumbs_of_every_depth_in_the_order_of_their_times(tmp_path: Path):
    """Breadcrumbs lie in breadcrumbs/ or one folder per depth; they become question, answer and error."""
    found = work_session(
        tmp_path,
        {
            "1/20251227_100200_000000.json": {"timestamp": "20251227_100200_000000", "prompt": "c", "response": "d"},
            "0/20251227_100100_000000.json": {"timestamp": "20251227_100100_000000", "prompt": "a", "response": "b",
                                              "model_used": "opus", "error": "late"},
            "20251227_100300_000000.json": {"timestamp": "20251227_100300_000000", "prompt": "e", "response": ""},
            "rejected/x.json": {"prompt": "never"},
        },
        related_entity={"phase_id": "p1"},
        modified="2025-12-27T10:09:00",
    )  # fmt: skip
    assert shape(found) == [
        ("user_message", "a"), ("assistant_message", "b"), ("error", {"message": "late"}),
        ("user_message", "c"), ("assistant_message", "d"), ("user_message", "e"),
    ]  # fmt: skip
    assert found.transcript.events[0].ts == "2025-12-27T10:01:00.000000"
    assert (found.meta.context.kind, found.meta.context.ref, found.meta.contract_type) == ("phase", "p1", "phase")
    assert (found.meta.status, found.meta.model, found.meta.initial_prompt) == ("open", "opus", "a")
    assert found.meta.updated_at == "2025-12-27T10:09:00.000000"


@pytest.mark.parametrize("metadata", [{"final_json": FINAL}, {"patch_operations": OPERATIONS}])
def test_a_work_session_may_have_its_final_json_in_its_metadata(tmp_path: Path, metadata: dict[str, Any]):
    """What the record says was decided is the final JSON."""
    found = work_session(tmp_path, {}, metadata=metadata)
    assert found.transcript.finals[0].payload == FINAL
    assert found.meta.status == "closed"


def test_the_final_json_in_an_answer():
    """An answer that is the JSON, or ends in a fenced block of it, is a final JSON; nothing else is."""
    text = json.dumps(FINAL)
    assert final_of(text) == FINAL
    assert final_of(f"Here:\n```json\n{text}\n```\nbye") == FINAL
    assert final_of(f"```\n{text}\n```") == FINAL
    for other in ("", "no", "{}", "[]", text[:-1], f"```json\n{text}\n```\n```json\n{{}}\n```", "```json\n" * 1000):
        assert final_of(other) is None


def test_migrating_is_repeatable_and_never_overwrites(tmp_path: Path):
    """What is there stays, what was cut short is completed, another discussion of the same id is a reason to skip."""
    found = artifact(tmp_path, initial_prompt="p", patch_operations=OPERATIONS, timestamp="2025-12-27T10:00:00")
    files = DiscussionFiles(tmp_path / "project")
    (tmp_path / "project").mkdir()
    assert files.take_in(found)
    assert not files.take_in(found)
    folder = tmp_path / "project/docs/maestro/sessions/discuss" / found.meta.session_id
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "meta.json").unlink()
    (folder / "transcript.jsonl").write_bytes(whole["transcript.jsonl"][:100])
    assert files.take_in(found)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    files.record(found.meta.session_id, 0, [("error", {"message": "later"})])
    assert not files.take_in(found)
    other = artifact(tmp_path, initial_prompt="q", timestamp="2025-12-27T10:00:00")
    with pytest.raises(FileCorrupt, match="another discussion"):
        files.take_in(other)
    report = migrate(files, candidates(tmp_path / "project", [str(tmp_path / f"{found.meta.session_id}_results.json")]))
    assert "another discussion" in report.skipped[0].reason


def test_what_is_migrated_is_said_as_it_happens(tmp_path: Path):
    """Progress counts every candidate, and children of work sessions are candidates of their own."""
    parent = work_session(tmp_path, {})
    child = Path(parent.path) / "22c021f4-300b-488e-9e8a-1c370c5c41ec"
    child.mkdir()
    (child / "session.json").write_text(json.dumps({"session_id": child.name, "session_type": "discussion"}))
    seen: list[tuple[int, int]] = []
    (tmp_path / "project").mkdir()
    report = migrate(
        DiscussionFiles(tmp_path / "project"),
        candidates(tmp_path / "project", [str(tmp_path)]),
        progress=lambda number, total: seen.append((number, total)),
    )
    assert seen == [(1, 2), (2, 2)]
    assert [row.session_id for row in report.migrated] == [parent.meta.session_id, child.name]


def test_a_canonical_folder_named_otherwise_is_found_by_its_id(tmp_path: Path):
    """Folders written by other programs need not be named like the id in their record."""
    found = artifact(tmp_path, initial_prompt="p")
    files = DiscussionFiles(tmp_path)
    files.take_in(found)
    home = tmp_path / "docs/maestro/sessions/discuss"
    (home / found.meta.session_id).rename(home / "EX-22")
    assert find(files, found.meta.session_id).folder == "EX-22"
    assert find(files, "EX-22").folder == "EX-22"
    with pytest.raises(DiscussionNotFound):
        find(files, "EX-23")
