"""What contracts allow, and how operations meet a plan that is there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from maestro_state.models.contracts import CONTRACTS, OPERATIONS, InvalidOperations, Operation, validate
from maestro_state.models.plan import NotApplicable, Plan, apply

GOOD: dict[str, dict[str, Any]] = {
    "add_track": {"track_name": "T"},
    "add_phase": {"phase_name": "P", "track_id": "t"},
    "add_task": {"task_name": "T", "phase_id": "p"},
    "move_task": {"task_id": "t", "target_phase_id": "p"},
    "edit_task_fields": {"task_id": "t", "fields": {"notes": "n"}},
    "mark_done": {"item_id": "t"},
    "mark_todo": {"item_id": "t", "item_type": "phase"},
}

ALLOWED = {
    "global": set(GOOD),
    "track": {"add_track", "add_phase", "add_task", "edit_task_fields", "mark_done", "mark_todo"},
    "phase": {"add_phase", "add_task", "move_task", "edit_task_fields", "mark_done", "mark_todo"},
    "task": {"add_task", "move_task", "edit_task_fields", "mark_done", "mark_todo"},
}


def patch(*operations: tuple[str, Any]) -> dict[str, Any]:
    """Return a final JSON."""
    return {"patch_operations": [{"op_type": kind, "data": data} for kind, data in operations]}


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_contract_allows_its_operations_and_no_other(contract: str, kind: str):
    """Each contract takes exactly the operations of its row, and its refusal names contract and operation."""
    payload = patch((kind, GOOD[kind]))
    if kind in ALLOWED[contract]:
        assert validate(contract, payload) == (Operation(kind, GOOD[kind]),)
    else:
        with pytest.raises(InvalidOperations, match=rf"operation 1 \({kind}\).*{contract}"):
            validate(contract, payload)


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (None, "patch_operations"),
        ([], "patch_operations"),
        ({}, "patch_operations"),
        ({"patch_operations": {}}, "patch_operations is not a list"),
        ({"patch_operations": [], "summary": "x"}, "'summary'"),
        ({"patch_operations": ["add_track"]}, "operation 1 is not an object"),
        (patch(("add_world", {})), "op_type 'add_world'"),
        ({"patch_operations": [{"op_type": ["add_track"], "data": {}}]}, "op_type"),
        ({"patch_operations": [{"op_type": "add_track"}]}, r"\(add_track\): data is not an object"),
        ({"patch_operations": [{"op_type": "add_track", "data": GOOD["add_track"], "note": 1}]}, "'note'"),
        (patch(("add_track", {})), r"operation 1 \(add_track\): data.track_name is missing"),
        (patch(("mark_done", GOOD["mark_done"]), ("add_phase", {"phase_name": "P"})), "operation 2.*track_id is"),
        (patch(("add_track", {"track_name": ""})), "data.track_name must be text"),
        (patch(("add_track", {"track_name": 5})), "data.track_name must be text"),
        (patch(("add_track", {"track_name": "a\nb"})), "control characters"),
        (patch(("add_track", {"track_name": "\ud800"})), "data.track_name must be text"),
        (patch(("add_track", {"track_name": "x" * 501})), "501 characters"),
        (patch(("add_track", {"track_name": "x", "track_id": "../etc"})), "data.track_id must be an id"),
        (patch(("add_track", {"track_name": "x", "track_id": ""})), "data.track_id must be an id"),
        (patch(("add_track", {"track_name": "x", "colour": "red"})), "data.colour is not known"),
        (patch(("mark_done", {"item_id": "t", "item_type": "world"})), "data.item_type"),
        (patch(("mark_done", {"item_id": "t", "item_type": ["task"]})), "data.item_type"),
        (patch(("edit_task_fields", {"task_id": "t", "fields": {}})), "at least one field"),
        (patch(("edit_task_fields", {"task_id": "t", "fields": {"task_id": "u"}})), "may not change task_id"),
        (patch(("edit_task_fields", {"task_id": "t", "fields": {"phase_id": "../p"}})), "phase_id must be an id"),
        (patch(("edit_task_fields", {"task_id": "t", "fields": {"status": 1}})), "status must be text"),
        (patch(("edit_task_fields", {"task_id": "t", "fields": {"a b": 1}})), "'a b'"),
        (patch(("edit_task_fields", {"task_id": "t", "fields": {"task_name": 1}})), "task_name must be text"),
        (patch(("edit_task_fields", {"task_id": "t", "fields": {"a": ["\udc00"]}})), "a must be"),
    ],
)
def test_what_a_contract_does_not_know_is_refused_by_name(payload: Any, says: str):
    """A wrong shape, type, name or field is refused, and the refusal names operation and field."""
    with pytest.raises(InvalidOperations, match=says):
        validate("global", payload)


def test_every_problem_is_told():
    """All problems of a list are collected, not only the first."""
    with pytest.raises(InvalidOperations, match="and 2 more") as refused:
        validate("task", patch(("add_track", {"colour": 1}), ("mark_done", {"item_id": "t"})))
    assert len(refused.value.problems) == 3


def test_absent_and_null_are_the_same_for_what_may_be_absent():
    """An optional field may be null; a required one may not."""
    assert validate("global", patch(("add_track", {"track_id": None, "track_name": "T"})))
    with pytest.raises(InvalidOperations, match="track_name"):
        validate("global", patch(("add_track", {"track_name": None})))


PLAN: Plan = {
    "tracks": [{"track_id": "t", "track_name": "T", "status": "todo"}],
    "phases": [{"phase_id": name, "phase_name": name, "track_id": "t", "status": "todo"} for name in ("p", "q", "r")],
    "tasks": [{"task_id": "x", "task_name": "X", "phase_id": "p", "status": "todo"}],
}


def run(*operations: tuple[str, dict[str, Any]], plan: Plan = PLAN) -> tuple[Plan, list[bool]]:
    """Apply operations to a plan; return it and what each changed."""
    after, effects = apply(plan, validate("global", patch(*operations)))
    return after, [effect.changed for effect in effects]


REPEATED = [
    [("add_task", {"task_name": "New", "phase_id": "p"}), ("mark_done", {"item_id": "new"})],
    [("add_task", {"task_id": "n", "task_name": "A", "phase_id": "p"}),
     ("edit_task_fields", {"task_id": "n", "fields": {"task_name": "B"}})],
    [("add_task", {"task_id": "n", "task_name": "A", "phase_id": "p"}),
     ("move_task", {"task_id": "n", "target_phase_id": "q"})],
    [("move_task", {"task_id": "x", "source_phase_id": "p", "target_phase_id": "q"}),
     ("move_task", {"task_id": "x", "source_phase_id": "q", "target_phase_id": "r"})],
    [("mark_done", {"item_id": "x"}), ("mark_todo", {"item_id": "x"})],
    [("edit_task_fields", {"task_id": "x", "fields": {"n": 1}}),
     ("edit_task_fields", {"task_id": "x", "fields": {"n": None}})],
]  # fmt: skip


@pytest.mark.parametrize("operations", REPEATED)
def test_what_was_applied_is_without_effect_from_then_on(operations: list[tuple[str, dict[str, Any]]]):
    """A list that overrides itself on the way is still one that changes nothing the second time."""
    once, _ = run(*operations)
    twice, changed = run(*operations, plan=once)
    assert twice == once
    assert not any(changed)


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        (("add_task", {"task_id": "x", "task_name": "Y", "phase_id": "p"}), "task 'x' exists .* task_name 'X'"),
        (("add_task", {"task_id": "x", "task_name": "X", "phase_id": "q"}), "exists already with phase_id 'p'"),
        (("add_phase", {"phase_name": "n", "track_id": "none"}), "track_id: there is no track 'none'"),
        (("add_task", {"task_name": "n", "phase_id": "t"}), "phase_id: there is no phase 't'"),
        (("move_task", {"task_id": "y", "target_phase_id": "q"}), "task_id: there is no task 'y'"),
        (("move_task", {"task_id": "x", "target_phase_id": "z"}), "target_phase_id: there is no phase 'z'"),
        (("move_task", {"task_id": "x", "source_phase_id": "r", "target_phase_id": "q"}), "in phase 'p', not in 'r'"),
        (("edit_task_fields", {"task_id": "y", "fields": {"a": 1}}), "there is no task 'y'"),
        (("mark_done", {"item_type": "track", "item_id": "p"}), "item_id: there is no track 'p'"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_changed(operation: tuple[str, dict[str, Any]], says: str):
    """A conflict or a missing reference names its operation, and what came before it in the list is not applied."""
    plan = copy.deepcopy(PLAN)
    with pytest.raises(NotApplicable, match=f"operation 2 .*{says}"):
        run(("add_track", {"track_name": "before"}), operation, plan=plan)
    assert plan == PLAN


def test_what_is_made_earlier_in_the_list_can_be_referred_to():
    """A phase may be added to a track of the same list, but not before it."""
    track = ("add_track", {"track_name": "New one"})
    phase = ("add_phase", {"phase_name": "New phase", "track_id": "new-one"})
    after, changed = run(track, phase)
    assert changed == [True, True]
    assert after["phases"][-1] == {
        "phase_id": "new-phase",
        "phase_name": "New phase",
        "track_id": "new-one",
        "status": "todo",
    }
    with pytest.raises(NotApplicable, match=r"operation 1 .*'new-one'"):
        run(phase, track)
