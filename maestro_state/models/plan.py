"""Patch operations on a plan: tracks, phases and tasks as plain records. Pure; all or nothing.

Repeatable by construction. For every field of every record a list of operations has one last word. Where the plan had
that value before the list began, nothing the list says about that field on the way matters, and nothing is checked or
changed: so a list that was applied is, from then on, without effect. Everywhere else operations are held to what they
say: an id that exists with other content, a task that is not where it is moved from, a reference to what is not there.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from maestro_state.errors import InvalidName, WorkFailed
from maestro_state.models.contracts import Operation
from maestro_state.models.names import slugify
from maestro_state.models.strict_json import same

#: A plan: list name → records, in the order they were added.
Plan = dict[str, list[dict[str, Any]]]

NOT_DONE, DONE = "todo", "done"


class Kind(msgspec.Struct, frozen=True):
    """One kind of record."""

    plural: str  #: its list in the plan
    parent: str | None = None  #: the kind it belongs to


#: Kind of record → where it is; a record of kind `x` has `x_id` and `x_name`, and `y_id` of its parent.
KINDS = {"track": Kind("tracks"), "phase": Kind("phases", "track"), "task": Kind("tasks", "phase")}


class NotApplicable(WorkFailed):
    """The operations do not fit what is there."""

    code = "not_applicable"


class Missing(msgspec.Struct, frozen=True):
    """Something an operation refers to that is neither in the plan nor made earlier in the list."""

    operation: int  #: its number in the list, from 1
    op_type: str
    field: str
    kind: str
    id: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"operation {self.operation} ({self.op_type}): {self.field}: there is no {self.kind} '{self.id}'"


class MissingEntities(NotApplicable):
    """The operations fit but for what they refer to; every such thing is named."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        super().__init__("; ".join(map(str, missing)))
        self.missing = tuple(missing)


class Effect(msgspec.Struct, frozen=True):
    """What one operation did, or would do."""

    op_type: str
    data: dict[str, Any]  #: with the id that was made, if one was missing
    changed: bool  #: False when its effect was there already
    summary: str

    def document(self) -> dict[str, Any]:
        """Return the row `discuss replay` prints."""
        return msgspec.structs.asdict(self)


_Place = tuple[str, str, str]  #: kind, id, field


def made_id(name: str) -> str:
    """Make an id from a name: kebab-case, or from its digest when it has no letter or digit of ASCII."""
    try:
        return slugify(name)
    except InvalidName:
        return f"n-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def apply(plan: Plan, operations: Sequence[Operation]) -> tuple[Plan, list[Effect]]:
    """Return the plan after all operations and what each did; raise NotApplicable and leave the plan as it is."""
    work = _Work(plan, [_with_ids(operation) for operation in operations])
    effects = []
    missing: list[Missing] = []
    for number, operation in enumerate(work.operations, start=1):
        references = work.missing_references(operation)
        missing += [Missing(number, operation.op_type, *reference) for reference in references]
        if not work.can_run(operation):
            continue
        try:
            changed, summary = work.run(operation)
        except NotApplicable as problem:
            raise NotApplicable(f"operation {number} ({operation.op_type}): {problem}") from problem
        effects.append(Effect(operation.op_type, operation.data, changed, summary))
    if missing:
        raise MissingEntities(missing)
    return work.plan, effects


def _with_ids(operation: Operation) -> Operation:
    """Fill in what may be left out, so that the rest sees whole operations."""
    data = {name: value for name, value in operation.data.items() if value is not None}
    if operation.op_type.startswith("add_"):
        kind = operation.op_type.removeprefix("add_")
        data = {f"{kind}_id": data.get(f"{kind}_id") or made_id(data[f"{kind}_name"])} | data
    if operation.op_type.startswith("mark_"):
        data = {"item_type": "task"} | data
    return Operation(operation.op_type, data)


def _says(operation: Operation) -> Iterator[tuple[_Place, Any]]:
    """Yield what an operation wants to be true afterwards."""
    data = operation.data
    match operation.op_type:
        case "move_task":
            yield ("task", data["task_id"], "phase_id"), data["target_phase_id"]
        case "edit_task_fields":
            for name, value in data["fields"].items():
                yield ("task", data["task_id"], name), value
        case "mark_done" | "mark_todo" as mark:
            yield (data["item_type"], data["item_id"], "status"), DONE if mark == "mark_done" else NOT_DONE
        case add:
            kind = add.removeprefix("add_")
            for name, value in data.items():
                yield (kind, data[f"{kind}_id"], name), value


def _references(operation: Operation) -> Iterator[tuple[str, str, str]]:
    """Yield field, kind and id of what must exist for an operation, its own record first."""
    data = operation.data
    match operation.op_type:
        case "move_task":
            yield "task_id", "task", data["task_id"]
            yield "target_phase_id", "phase", data["target_phase_id"]
        case "edit_task_fields":
            yield "task_id", "task", data["task_id"]
            if "phase_id" in data["fields"]:
                yield "fields.phase_id", "phase", data["fields"]["phase_id"]
        case "mark_done" | "mark_todo":
            yield "item_id", data["item_type"], data["item_id"]
        case add:
            if parent := KINDS[add.removeprefix("add_")].parent:
                yield f"{parent}_id", parent, data[f"{parent}_id"]


class _Work:
    """One list of operations at work on a copy of a plan."""

    def __init__(self, plan: Plan, operations: list[Operation]) -> None:
        """Note the last word of the list on every field, and where the plan has it already."""
        self.operations = operations
        self.plan = copy.deepcopy(plan)
        self._records = {
            (kind, record[f"{kind}_id"]): record for kind, row in KINDS.items() for record in self.plan[row.plural]
        }
        last_word = dict(said for operation in operations for said in _says(operation))
        self._settled = {
            (kind, item_id, name)
            for (kind, item_id, name), value in last_word.items()
            if (kind, item_id) in self._records and same(_value(self._records[kind, item_id], name), value)
        }

    def missing_references(self, operation: Operation) -> list[tuple[str, str, str]]:
        """Return field, kind and id of everything an operation refers to that is not there."""
        return [reference for reference in _references(operation) if reference[1:] not in self._records]

    def can_run(self, operation: Operation) -> bool:
        """Tell whether there is a record to work on; what is added is, so that the rest of the list can be checked."""
        if operation.op_type.startswith("add_"):
            return True
        _, kind, item_id = next(_references(operation))
        return (kind, item_id) in self._records

    def run(self, operation: Operation) -> tuple[bool, str]:
        """Apply one operation; tell whether it changed anything, and what it says in words."""
        match operation.op_type:
            case "move_task":
                return self._move(operation)
            case "edit_task_fields":
                fields = ", ".join(operation.data["fields"])
                return self._write(operation), f"edit {fields} of task {operation.data['task_id']}"
            case "mark_done" | "mark_todo" as mark:
                kind, item_id = operation.data["item_type"], operation.data["item_id"]
                return self._write(operation), f"mark {kind} {item_id} as {mark.removeprefix('mark_')}"
        return self._add(operation)

    def _add(self, operation: Operation) -> tuple[bool, str]:
        kind, data = operation.op_type.removeprefix("add_"), operation.data
        item_id, name = data[f"{kind}_id"], data[f"{kind}_name"]
        summary = f"add {kind} {item_id}: {name}"
        if (kind, item_id) not in self._records:
            record = data | {"status": NOT_DONE}
            self.plan[KINDS[kind].plural].append(record)
            self._records[kind, item_id] = record
            return True, summary
        for place, wanted in _says(operation):
            present = _value(self._records[kind, item_id], place[2])
            if place not in self._settled and not same(present, wanted):
                raise NotApplicable(f"{kind} '{item_id}' exists already with {place[2]} {present!r:.80}")
        return False, summary

    def _move(self, operation: Operation) -> tuple[bool, str]:
        data = operation.data
        record = self._records["task", data["task_id"]]
        summary = f"move task {data['task_id']} to phase {data['target_phase_id']}"
        present, source = record.get("phase_id"), data.get("source_phase_id", record.get("phase_id"))
        is_there = ("task", data["task_id"], "phase_id") in self._settled or present == data["target_phase_id"]
        if not is_there and present != source:
            raise NotApplicable(f"task '{data['task_id']}' is in phase {present!r:.80}, not in '{source}'")
        return self._write(operation), summary

    def _write(self, operation: Operation) -> bool:
        """Make true what the operation says; tell whether it was not."""
        changed = False
        for place, value in _says(operation):
            kind, item_id, name = place
            record = self._records[kind, item_id]
            if place not in self._settled and not same(_value(record, name), value):
                record[name] = value
                changed = True
        return changed


#: What a record without this field is taken to have; an absent field is never the same as one that is null.
_ABSENT = {"absent": True}


def _value(record: dict[str, Any], name: str) -> Any:
    return record.get(name, NOT_DONE if name == "status" else _ABSENT)
