"""Contracts: which operations a discussion may end in, and which fields each operation has. Tables, and their reader.

A final_json that says anything the tables do not know is refused whole; every problem names its operation and field.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from maestro_state.errors import InvalidValue
from maestro_state.models import strict_json


class Field(msgspec.Struct, frozen=True):
    """One field of an operation's data."""

    kind: str  #: id, name, item_type or fields
    required: bool = True


_ID, _NAME, _MADE_ID = Field("id"), Field("name"), Field("id", required=False)
_MARK = {"item_type": Field("item_type", required=False), "item_id": _ID}

#: Operation → fields of its data.
OPERATIONS: dict[str, dict[str, Field]] = {
    "add_track": {"track_id": _MADE_ID, "track_name": _NAME},
    "add_phase": {"phase_id": _MADE_ID, "phase_name": _NAME, "track_id": _ID},
    "add_task": {"task_id": _MADE_ID, "task_name": _NAME, "phase_id": _ID},
    "move_task": {"task_id": _ID, "source_phase_id": Field("id", required=False), "target_phase_id": _ID},
    "edit_task_fields": {"task_id": _ID, "fields": Field("fields")},
    "mark_done": _MARK,
    "mark_todo": _MARK,
}

_MARKS = ("mark_done", "mark_todo")

#: Contract → operations it allows.
CONTRACTS: dict[str, tuple[str, ...]] = {
    "global": tuple(OPERATIONS),
    "track": ("add_track", "add_phase", "add_task", "edit_task_fields", *_MARKS),
    "phase": ("add_phase", "add_task", "move_task", "edit_task_fields", *_MARKS),
    "task": ("add_task", "move_task", "edit_task_fields", *_MARKS),
}

ITEM_TYPES = ("task", "phase", "track")

#: Fields of a task that tell which one it is.
NOT_EDITABLE = ("task_id",)

#: Longest name, in characters.
NAME_MAX = 500

#: Most operations in one discussion.
OPERATIONS_MAX = 10_000

_ID_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_FIELD_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DEPTH_MAX = 16


class Operation(msgspec.Struct, frozen=True):
    """One patch operation that its contract allows."""

    op_type: str
    data: dict[str, Any]


class InvalidOperations(InvalidValue):
    """The final JSON does not keep to its contract."""

    code = "invalid_operations"

    def __init__(self, problems: list[str]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}", hint="maestro discuss done FILE with the corrected JSON")
        self.problems = problems


def validate(contract_type: str, payload: Any) -> tuple[Operation, ...]:
    """Return the operations of a final_json payload; raise InvalidOperations with everything wrong with it."""
    if contract_type not in CONTRACTS:
        raise InvalidOperations([f"'{contract_type!s:.40}' is not a contract: one of {', '.join(CONTRACTS)}"])
    if not isinstance(payload, dict) or "patch_operations" not in payload:
        raise InvalidOperations(["the final JSON must be an object with the list patch_operations"])
    problems = [f"the final JSON has a field that no contract knows: {name[:40]!r}"
                for name in payload if name != "patch_operations"]  # fmt: skip
    operations = payload["patch_operations"]
    if not isinstance(operations, list):
        raise InvalidOperations([*problems, "patch_operations is not a list"])
    if len(operations) > OPERATIONS_MAX:
        raise InvalidOperations([f"{len(operations)} operations; at most {OPERATIONS_MAX} are taken"])
    for number, operation in enumerate(operations, start=1):
        problems += _problems(contract_type, number, operation)
    if problems:
        raise InvalidOperations(problems)
    return tuple(Operation(operation["op_type"], operation["data"]) for operation in operations)


def instructions(contract_type: str, about: str) -> str:
    """Return what a tool is told, so that its last answer can be the final JSON."""
    rows = []
    for kind in CONTRACTS[contract_type]:
        fields = [name if field.required else f"{name}?" for name, field in OPERATIONS[kind].items()]
        rows.append(f"- {kind} {{{', '.join(fields)}}}")
    return "\n".join((
        f"You take part in a discussion about {about}. Answer the last message of the user.",
        "When the user asks for the result, answer with this JSON object and nothing else:",
        '{"patch_operations": [{"op_type": "...", "data": {...}}]}',
        "These operations are allowed, with these fields of data (those with ? may be left out):",
        *rows,
    ))  # fmt: skip


def _problems(contract_type: str, number: int, operation: Any) -> list[str]:
    """Return everything wrong with one operation."""
    if not isinstance(operation, dict):
        return [f"operation {number} is not an object"]
    kind, data = operation.get("op_type"), operation.get("data")
    if not isinstance(kind, str) or kind not in OPERATIONS:
        return [f"operation {number}: op_type {kind!r:.60} is not known"]
    label = f"operation {number} ({kind})"
    problems = [f"{label}: {name[:40]!r} is not a field of an operation"
                for name in operation if name not in ("op_type", "data")]  # fmt: skip
    if kind not in CONTRACTS[contract_type]:
        problems.append(f"{label}: the contract {contract_type} does not allow it")
    if not isinstance(data, dict):
        return [*problems, f"{label}: data is not an object"]
    fields = OPERATIONS[kind]
    problems += [f"{label}: data.{name[:40]} is not known" for name in data if name not in fields]
    for name, field in fields.items():
        if data.get(name) is None and not field.required:
            continue
        if name not in data:
            problems.append(f"{label}: data.{name} is missing")
        elif reason := _CHECKS[field.kind](data[name]):
            problems.append(f"{label}: data.{name} {reason}")
    return problems


def _id(value: Any) -> str | None:
    fits = isinstance(value, str) and _ID_FORM.fullmatch(value)
    return None if fits else "must be an id: letters, digits, '.', '_' and '-'"


def _name(value: Any) -> str | None:
    if not strict_json.is_text(value) or not value.strip():
        return "must be text"
    if len(value) > NAME_MAX:
        return f"is {len(value)} characters; at most {NAME_MAX} are taken"
    return "must be one line without control characters" if _CONTROL.search(value) else None


def _item_type(value: Any) -> str | None:
    return None if value in ITEM_TYPES else f"must be one of {', '.join(ITEM_TYPES)}"


def _fields(value: Any) -> str | None:
    if not isinstance(value, dict) or not value:
        return "must be an object with at least one field"
    for name, content in value.items():
        if name in NOT_EDITABLE:
            return f"may not change {name}: it tells which task this is"
        if not _FIELD_FORM.fullmatch(name):
            return f"has a field that is no name: {name[:40]!r}"
        if (check := _TASK_FIELDS.get(name)) and (reason := check(content)):
            return f"{name} {reason}"
        if not _is_storable(content, _DEPTH_MAX):
            return f"{name} must be text, numbers, lists and objects of them, not nested deeper than {_DEPTH_MAX}"
    return None


def _is_storable(value: Any, depth: int) -> bool:
    """Tell whether a value can stand in a plan file: valid text all through, and not endlessly deep."""
    if depth == 0:
        return False
    if isinstance(value, dict):
        return all(strict_json.is_text(name) and _is_storable(one, depth - 1) for name, one in value.items())
    if isinstance(value, list):
        return all(_is_storable(one, depth - 1) for one in value)
    return not isinstance(value, str) or strict_json.is_text(value)


#: Fields of a task that hold only what the operations about them take.
_TASK_FIELDS = {"task_name": _name, "status": _name, "phase_id": _id}

_CHECKS = {"id": _id, "name": _name, "item_type": _item_type, "fields": _fields}
