"""Statistics of breadcrumbs: sums that are kept as breadcrumbs are applied, and how they add up over a tree.

Each work session keeps sums of its own breadcrumbs only. A tree's are added when they are read: parents lie elsewhere
on a cluster, so nothing could add to them in the same step, and adding later could add twice. Money is counted in
whole billionths of a dollar, so that sums are exact and in whichever order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from maestro_state.models.work import Breadcrumb
from maestro_state.models.work_names import file_stamp

NANO = 1_000_000_000

#: What a breadcrumb without a model is counted under.
NO_MODEL = "unknown"


class WorkStats(msgspec.Struct, frozen=True):
    """What `wsession stats` tells."""

    sessions: int
    breadcrumbs: int
    tokens: dict[str, int]
    cost: float
    files_modified: int
    errors: int
    by_model: dict[str, dict[str, Any]]
    by_tool: dict[str, int]
    by_depth: dict[str, int]
    by_day: dict[str, int]
    cost_detail: dict[str, float | int]  #: known and estimated in USD; unknown: how many said nothing


class Parts(msgspec.Struct, frozen=True):
    """What one breadcrumb brings to the sums; the names of its fields in the stream, which the script reads."""

    depth: int
    day: str
    errors: int
    files: int
    cost_kind: str
    nano: int
    input: int
    output: int
    model: str
    tools: dict[str, int]


def parts_of(crumb: Breadcrumb) -> Parts:
    """Return what one breadcrumb brings to the sums."""
    return Parts(
        depth=crumb.depth_level,
        day=file_stamp(crumb.timestamp)[:8],
        errors=int(bool(crumb.error)),
        files=len(crumb.files_modified),
        cost_kind=crumb.cost_kind,
        nano=round((crumb.cost or 0.0) * NANO),
        input=crumb.token_count.input,
        output=crumb.token_count.output,
        model=crumb.model_used or NO_MODEL,
        tools=dict(Counter(str(call["tool"]) for call in crumb.tools_called)),
    )


def totals_of(crumbs: Iterable[Breadcrumb]) -> Counter[str]:
    """Count breadcrumbs that only the disk has, or that a filter left, the way apply_breadcrumbs does."""
    totals: Counter[str] = Counter()
    for parts in map(parts_of, crumbs):
        model, kind = parts.model, parts.cost_kind
        amounts = {"input": parts.input, "output": parts.output, "nano": parts.nano}
        totals.update(amounts)
        totals.update({f"model:{name}:{model}": amount for name, amount in amounts.items()})
        totals.update({"errors": parts.errors, "files": parts.files, f"nano:{kind}": parts.nano})
        totals.update(("breadcrumbs", f"depth:{parts.depth}", f"day:{parts.day}", f"cost:{kind}"))
        totals.update((f"model:breadcrumbs:{model}",))
        totals.update({f"tool:{tool}": times for tool, times in parts.tools.items()})
    return totals


def add_up(parts: Iterable[Mapping[str, int]]) -> WorkStats:
    """Add the sums of the work sessions of a tree, one mapping each."""
    totals: Counter[str] = Counter()
    sessions = 0
    for part in parts:
        sessions += 1
        totals.update(part)

    def under(prefix: str) -> dict[str, int]:
        found = {name.removeprefix(prefix): n for name, n in totals.items() if name.startswith(prefix) and n}
        return dict(sorted(found.items()))

    by_model: dict[str, dict[str, Any]] = {
        model: {
            "breadcrumbs": count,
            "tokens": {kind: totals[f"model:{kind}:{model}"] for kind in ("input", "output")},
            "cost": totals[f"model:nano:{model}"] / NANO,
        }
        for model, count in under("model:breadcrumbs:").items()
    }
    return WorkStats(
        sessions=sessions,
        breadcrumbs=totals["breadcrumbs"],
        tokens={kind: totals[kind] for kind in ("input", "output")},
        cost=totals["nano"] / NANO,
        files_modified=totals["files"],
        errors=totals["errors"],
        by_model=by_model,
        by_tool=under("tool:"),
        by_depth=dict(sorted(under("depth:").items(), key=lambda pair: int(pair[0]))),
        by_day=under("day:"),
        cost_detail={
            "known": totals["nano:known"] / NANO,
            "estimated": totals["nano:estimated"] / NANO,
            "unknown": totals["cost:unknown"],
        },
    )
