"""Replay: from a closed discussion to the plan files, without asking any AI. The same transcript on the same files
gives the same files, to the byte; what happened is appended to the transcript.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from maestro_state.errors import DiscussionOpen, FileCorrupt, WorkFailed
from maestro_state.mirror.layouts.plan import HOME, PlanFiles
from maestro_state.models.contracts import InvalidOperations, Operation, validate
from maestro_state.models.discussion import ERROR, REPLAY, Discussion
from maestro_state.models.plan import Effect, Missing, MissingEntities, apply

OK, FAIL = "REPLAY_OK", "REPLAY_FAIL"


class Change(msgspec.Struct, frozen=True):
    """One plan file before and after."""

    path: str
    before: bytes
    after: bytes


class ReplayOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay did, or would do."""

    result: str  #: REPLAY_OK or REPLAY_FAIL
    dry_run: bool
    effects: tuple[Effect, ...] = ()
    changes: tuple[Change, ...] = ()
    error: str | None = None
    missing: tuple[Missing, ...] = ()  #: what the operations refer to and is not there
    warnings: tuple[str, ...] = ()

    @property
    def ops_count(self) -> int:
        """Return how many operations were applied or planned, those without effect included; none of a failure's."""
        return len(self.effects)

    def document(self) -> dict[str, Any]:
        """Return the document `discuss replay` prints."""
        shown: dict[str, Any] = {
            "result": self.result,
            "dry_run": self.dry_run,
            "ops_count": self.ops_count,
            "operations": [effect.document() for effect in self.effects],
            "changed_files": [change.path for change in self.changes],
        }
        shown |= {"error": self.error} if self.error else {}
        shown |= {"missing": [msgspec.structs.asdict(one) for one in self.missing]} if self.missing else {}
        return shown | ({"warnings": list(self.warnings)} if self.warnings else {})

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what is to be appended to the transcript."""
        payload = {"dry_run": self.dry_run, "result": self.result, "ops_count": self.ops_count}
        if self.error is None:
            return [(REPLAY, payload)]
        return [(ERROR, {"message": self.error}), (REPLAY, payload | {"error": self.error})]


def operations_of(found: Discussion) -> tuple[Operation, ...]:
    """Return what a discussion decided; raise for one that is damaged, open, or does not keep to its contract."""
    transcript = found.transcript
    if transcript.damaged:
        first = transcript.damaged[0]
        raise FileCorrupt(
            f"line {first.line} of the transcript is damaged: {first.reason}", hint="restore transcript.jsonl from git"
        )
    if not transcript.finals:
        raise DiscussionOpen(found.meta.session_id)
    if len(transcript.finals) > 1:
        raise InvalidOperations([f"the transcript has {len(transcript.finals)} final_json events instead of one"])
    return validate(found.meta.contract_type, transcript.finals[0].payload)


def replay(root: Path, found: Discussion, *, dry_run: bool) -> ReplayOutcome:
    """Apply or plan a discussion's operations. Repeatable; the caller appends `outcome.events()` to the transcript.

    Raise DiscussionOpen for one without final_json; every other problem is an outcome.
    """
    warnings = () if found.transcript.damaged else tuple(found.warnings())
    try:
        return _run(root, operations_of(found), dry_run=dry_run, warnings=warnings)
    except (InvalidOperations, WorkFailed) as error:
        missing = error.missing if isinstance(error, MissingEntities) else ()
        return ReplayOutcome(result=FAIL, dry_run=dry_run, error=str(error), missing=missing, warnings=warnings)


def _run(root: Path, operations: tuple[Operation, ...], *, dry_run: bool, warnings: tuple[str, ...]) -> ReplayOutcome:
    with PlanFiles.hold(root) as plan_files:
        plan, effects = apply(plan_files.read(), operations)
        contents = plan_files.changes(plan)
        changes = [
            Change("/".join((*HOME, name)), plan_files.content(name), content) for name, content in contents.items()
        ]
        if not dry_run:
            plan_files.commit(contents)
    return ReplayOutcome(result=OK, dry_run=dry_run, effects=tuple(effects), changes=tuple(changes), warnings=warnings)
