"""The golden discussions: `python -m tests.golden_discussions write` writes them, the tests replay them.

A case is a project before (`before/`) and the reference to replay; what must come out is stored beside it: the plan
files (`after/`) and the outcome (`outcome.json`). Written once, looked at, committed: a change of any byte is a
change of behaviour. `python -m tests.golden_discussions digests FOLDER` replays all of them in another environment.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from maestro_state.discuss.finding import find
from maestro_state.discuss.replay import replay
from maestro_state.errors import MaestroError
from maestro_state.mirror.layouts.discussion import DiscussionFiles

FOLDER = Path(__file__).parents[1] / "golden" / "discuss"
NOW_MICROS = 1_800_000_000_000_000

Operations = list[tuple[str, dict[str, Any]]]

TRACK = ("add_track", {"track_id": "TRK-A", "track_name": "Alpha"})
PHASE = ("add_phase", {"phase_id": "PH-1", "phase_name": "Core", "track_id": "TRK-A"})
PHASE_2 = ("add_phase", {"phase_id": "PH-2", "phase_name": "Edges", "track_id": "TRK-A"})
PHASE_3 = ("add_phase", {"phase_id": "PH-3", "phase_name": "Polish", "track_id": "TRK-A"})
TASK = ("add_task", {"task_id": "T-1", "task_name": "Parse", "phase_id": "PH-1"})
CHAIN: Operations = [TRACK, PHASE, PHASE_2, PHASE_3, TASK]

PLAN = {
    "tracks.json": {"tracks": [{"track_id": "TRK-A", "track_name": "Alpha", "status": "todo"}]},
    "phases.json": {
        "phases": [{"phase_id": "PH-1", "phase_name": "Core", "track_id": "TRK-A", "status": "todo", "z": 1, "a": "é"}]
    },
    "tasks.json": {"note": "kept", "tasks": [{"task_id": "T-1", "task_name": "Parse", "phase_id": "PH-1"}]},
}


def _patch(operations: Operations) -> dict[str, Any]:
    return {"patch_operations": [{"op_type": kind, "data": data} for kind, data in operations]}


def _event(kind: str, payload: dict[str, Any], second: int) -> bytes:
    event = {"ts": f"2026-01-02T03:04:{second:02}.000001", "type": kind, "payload": payload}
    return json.dumps(event).encode() + b"\n"


def _said(content: str, second: int = 5) -> bytes:
    return _event("user_message", {"content": content}, second)


def _final(operations: Operations, second: int = 30) -> bytes:
    return _event("final_json", _patch(operations), second)


class Case:
    """One golden discussion."""

    def __init__(self, name: str, transcript: bytes, *, contract: str = "global", plan: bool = False) -> None:
        self.name, self.ref = name, f"golden-{name}"
        self.files = {f"docs/maestro/sessions/discuss/{self.ref}/transcript.jsonl": transcript}
        meta = {
            "session_id": self.ref,
            "context": {"kind": "global", "ref": None, "router_reason": "golden"},
            "contract_type": contract,
            "created_at": "2026-01-02T03:04:05.000001",
            "updated_at": "2026-01-02T03:04:30.000001",
            "status": "open",
            "final_json_present": b'"final_json"' in transcript,
            "engine": "fixture",
            "model": "none",
            "initial_prompt": "golden",
        }
        self.files[f"docs/maestro/sessions/discuss/{self.ref}/meta.json"] = json.dumps(meta, indent=2).encode()
        if plan:
            self.files |= {f"docs/maestro/{name}": json.dumps(one).encode() for name, one in PLAN.items()}


class LegacyCase(Case):
    """One of the formats of the past."""

    def __init__(self, name: str, ref: str, files: dict[str, Any]) -> None:
        self.name, self.ref = name, ref
        self.files = {path: json.dumps(one).encode() for path, one in files.items()}


def _artifact(**fields: Any) -> dict[str, Any]:
    return {
        "session_id": "discuss_global_20260102_030405",
        "timestamp": "2026-01-02T03:04:05.000000",
        "engine": "fixture",
        "model": "none",
        "contract_type": "global",
        "context": {"kind": "global", "ref": None, "router_reason": "golden"},
        "initial_prompt": "plan it",
        "status": "pending",
    } | fields


def _crumb(stamp: str, prompt: str, response: str) -> dict[str, Any]:
    return {"timestamp": stamp, "breadcrumb_id": stamp, "prompt": prompt, "response": response, "model_used": "m"}


ARTIFACT = "docs/maestro/ai/artifacts/discuss_global_20260102_030405_results.json"
WORK = "docs/sessions/11111111-2222-4333-8444-555555555555"
WORK_SESSION = {"session_id": WORK.rsplit("/", 1)[1], "session_type": "discussion", "status": "completed",
                "created": "2026-01-02T03:04:05.000000", "modified": "2026-01-02T03:09:00.000000",
                "related_entity": {"track_id": "TRK-A"}, "metadata": {}}  # fmt: skip
WORK_ID = WORK.rsplit("/", 1)[1]
REPLAYED = _event("replay_run", {"dry_run": False, "result": "REPLAY_OK", "ops_count": 5}, 40)
RAW = {"ts": "2026-01-02T03:04:05.000001", "type": "assistant_message", "payload": {"content": "é日😀\u2029"}}
SURROGATES = (
    b'{"ts": "2026-01-02T03:04:05.000001", "type": "user_message", "payload": {"content": '
    b'"\\ud83d alone, \\ud83d\\ude00 paired"}}\n'
)
TORN_CHARACTER = '{"ts": "2026-01-02T03:04:50.000001", "type": "error", "payload": {"message": "é'.encode()[:-1]


def _move(source: str, target: str) -> tuple[str, dict[str, Any]]:
    return "move_task", {"task_id": "T-1", "source_phase_id": source, "target_phase_id": target}


def _edit(**fields: Any) -> tuple[str, dict[str, Any]]:
    return "edit_task_fields", {"task_id": "T-1", "fields": fields}


def _mark(word: str, item_id: str, **kind: str) -> tuple[str, dict[str, Any]]:
    return f"mark_{word}", {"item_id": item_id, **kind}


CASES = [
    Case("chain", _said("hi") + _final(CHAIN)),
    Case("made-ids", _final([("add_track", {"track_name": "Ações de Login"}),
                             ("add_phase", {"phase_name": "1: Núcleo!", "track_id": "acoes-de-login"})])),
    Case("no-ascii-name", _final([("add_track", {"track_name": "日本語"})])),
    Case("empty", _said("nothing to do") + _final([])),
    Case("move", _final([*CHAIN, _move("PH-1", "PH-2")])),
    Case("move-twice", _final([*CHAIN, _move("PH-1", "PH-2"), _move("PH-2", "PH-3")])),
    Case("rename", _final([*CHAIN, _edit(task_name="Lex", size=3)])),
    Case("edit-nested", _final([_edit(tags=["b", "a"], estimate={"low": 1.5, "high": 2, "sure": True, "by": None})]),
         plan=True),
    Case("mark", _final([_mark("done", "T-1"), _mark("done", "PH-1", item_type="phase"),
                         _mark("done", "TRK-A", item_type="track")]), plan=True),
    Case("mark-and-back", _final([_mark("done", "T-1"), _mark("todo", "T-1")]), plan=True),
    Case("already-there", _final([TRACK, PHASE, TASK]), plan=True),
    Case("contract-track", _final([PHASE_2]), contract="track", plan=True),
    Case("contract-task", _final([("add_task", {"task_name": "Test", "phase_id": "PH-1"})]), contract="task",
         plan=True),
    Case("ansi", _said("\x1b[31mred\x1b[0m \x1b]0;title\x07 \x00 \u2028 \x85") + _final(CHAIN)),
    Case("carriage-returns", (_said("50%\r100%") + _final(CHAIN)).replace(b"\n", b"\r\n")),
    Case("surrogates", SURROGATES + _final(CHAIN)),
    Case("raw-unicode", json.dumps(RAW, ensure_ascii=False).encode() + b"\n" + _final(CHAIN)),
    Case("torn-tail", _final(CHAIN) + REPLAYED[:60]),
    Case("torn-character", _final(CHAIN) + TORN_CHARACTER),
    Case("torn-final", _said("hi") + _final(CHAIN)[:200]),
    Case("no-line-end", _final(CHAIN).rstrip()),
    Case("blank-lines-and-mark", b"\xef\xbb\xbf" + _said("hi") + b"\n\n" + _final(CHAIN) + b"\n"),
    Case("replayed-before", _final(CHAIN) + REPLAYED + _event("error", {"message": "x", "details": "y"}, 41)),
    Case("no-final", _said("hi")),
    Case("two-finals", _final([]) + _final(CHAIN, 31)),
    Case("damaged-line", _said("hi")[:40] + b"\n" + _final(CHAIN)),
    Case("split-character", _said("hi").replace(b"hi", b"\xc3") + _final(CHAIN)),
    Case("not-a-number", _final([_edit(n=float("nan"))]), plan=True),
    Case("key-twice", _final([TRACK]).replace(b'"track_id": "TRK-A"', b'"track_id": "TRK-A", "track_id": "TRK-B"')),
    Case("other-content", _final([("add_track", {"track_id": "TRK-A", "track_name": "Beta"})]), plan=True),
    Case("no-such-phase", _final([TRACK, ("add_task", {"task_name": "x", "phase_id": "nowhere"})])),
    Case("not-in-source", _final([PHASE_2, PHASE_3, _move("PH-3", "PH-2")]), plan=True),
    Case("not-allowed", _final([TRACK]), contract="task"),
    Case("unknown-field", _final([("add_track", {"track_name": "x", "colour": "red"})])),
    LegacyCase("artifact-object", "discuss_global_20260102_030405",
               {ARTIFACT: _artifact(transcript={}, patch_operations=_patch(CHAIN)["patch_operations"])}),
    LegacyCase("artifact-list", "discuss_global_20260102_030405", {ARTIFACT: _artifact(
        transcript=[json.loads(_said("hi")), {"role": "assistant", "content": "ok"}, json.loads(_final(CHAIN))])}),
    LegacyCase("work-session", WORK_ID, {
        f"{WORK}/session.json": WORK_SESSION,
        f"{WORK}/breadcrumbs/1/20260102_030600_000000.json":
            _crumb("20260102_030600_000000", "/done", json.dumps(_patch(CHAIN))),
        f"{WORK}/breadcrumbs/0/20260102_030500_000000.json": _crumb("20260102_030500_000000", "plan", "thinking"),
    }),
]  # fmt: skip


def replay_case(root: Path, ref: str) -> dict[str, Any]:
    """Replay one discussion of a project, as the command does, and return what came of it."""
    files = DiscussionFiles(root)
    found = find(files, ref)
    folder = found.folder
    if found.elsewhere is not None:
        files.take_in(found.elsewhere)
        folder = found.elsewhere.meta.session_id
    try:
        outcome = replay(root, files.load(folder), dry_run=False)
    except MaestroError as error:
        return {"refused": error.code}
    files.record(folder, NOW_MICROS, outcome.events())
    return outcome.document()


def plan_files(root: Path) -> dict[str, bytes]:
    """Return the plan files of a project."""
    return {path.name: path.read_bytes() for path in sorted((root / "docs" / "maestro").glob("*.json"))}


def digests(folder: Path) -> dict[str, str]:
    """Replay every case twice in copies of its project; return a digest of everything each left behind."""
    found = {}
    for case in sorted(path for path in folder.iterdir() if path.is_dir()):
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch) / "project"
            shutil.copytree(case / "before", root)
            ref = json.loads((case / "outcome.json").read_text(encoding="utf-8"))["ref"]
            said = [replay_case(root, ref), replay_case(root, ref)]
            digest = hashlib.sha256(json.dumps(said, sort_keys=True).replace(scratch, "").encode())
            for path in sorted(root.rglob("*")):
                if path.is_file():
                    digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
            found[case.name] = digest.hexdigest()
    return found


def _write() -> None:
    for case in CASES:
        folder = FOLDER / case.name
        shutil.rmtree(folder, ignore_errors=True)
        for path, content in case.files.items():
            (folder / "before" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "before" / path).write_bytes(content)
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch) / "project"
            shutil.copytree(folder / "before", root)
            outcome = {"ref": case.ref, "outcome": replay_case(root, case.ref)}
            (folder / "after").mkdir()
            for name, content in plan_files(root).items():
                (folder / "after" / name).write_bytes(content)
        text = json.dumps(outcome, indent=2, ensure_ascii=False).replace(scratch, "")
        (folder / "outcome.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        _write()
    else:
        sys.stdout.write(json.dumps(digests(Path(sys.argv[2]))))
