"""Statistics of any tree, against a plain model that adds everything up from scratch."""

from __future__ import annotations

import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from maestro_state.models.work import Breadcrumb, TokenCount
from maestro_state.work.stats import totals_of
from maestro_state.work.tree import Filters
from tests.support.backends import BACKENDS
from tests.support.key_leaks import check_keys

#: Costs as people write them: up to nine decimals.
_costs = st.none() | st.integers(0, 10**12).map(lambda nano: float(Decimal(nano) / 10**9))
_models = st.sampled_from(["", "opus", "a:b", "model:input:x", "é\n", "unknown"])
_tools = st.lists(st.sampled_from(["sh", "depth:1", "grep", "ls -l"]), max_size=4)


@st.composite
def _crumbs(draw: st.DrawFn) -> Breadcrumb:
    return Breadcrumb(
        timestamp=f"202611{draw(st.integers(1, 3)):02}_120000_{draw(st.integers(0, 999_999)):06}",
        breadcrumb_id=draw(st.uuids(version=4).map(str)),
        tools_called=[{"tool": name} for name in draw(_tools)],
        files_modified=[{"path": "f"}] * draw(st.integers(0, 3)),
        depth_level=draw(st.integers(0, 12)),
        model_used=draw(_models),
        token_count=TokenCount(input=draw(st.integers(0, 10**9)), output=draw(st.integers(0, 10**9))),
        cost=draw(_costs),
        cost_estimated=draw(st.booleans()),
        error=draw(st.none() | st.just("boom") | st.just("")),
    )


#: A tree: for each work session its parent (an earlier one, or -1) and its breadcrumbs.
_trees = st.lists(st.tuples(st.integers(-1, 5), st.lists(_crumbs(), max_size=4)), min_size=1, max_size=6)


def model(crumbs: list[Breadcrumb]) -> dict[str, object]:
    """Add up the way a person would."""
    cost = sum((Decimal(str(one.cost)) for one in crumbs if one.cost is not None), Decimal(0))
    by_model = Counter(one.model_used or "unknown" for one in crumbs)
    return {
        "breadcrumbs": len(crumbs),
        "tokens": {"input": sum(one.token_count.input for one in crumbs),
                   "output": sum(one.token_count.output for one in crumbs)},
        "cost": float(cost),
        "files_modified": sum(len(one.files_modified) for one in crumbs),
        "errors": sum(1 for one in crumbs if one.error),
        "by_tool": dict(Counter(call["tool"] for one in crumbs for call in one.tools_called)),
        "by_depth": dict(Counter(str(one.depth_level) for one in crumbs)),
        "by_day": dict(Counter(one.timestamp[:8] for one in crumbs)),
        "models": dict(by_model),
        "unknown": sum(1 for one in crumbs if one.cost is None),
    }  # fmt: skip


@settings(max_examples=25)
@given(_trees, st.integers(1, 3))
def test_roll_up_is_what_a_plain_count_gives(tree: list[tuple[int, list[Breadcrumb]]], batch: int):
    """For every work session of any tree, applied in any batches: the server's sums are those of the model."""
    with (
        tempfile.TemporaryDirectory(prefix="m-") as folder,
        BACKENDS["fake"](Path(folder)) as backend,
        backend.open() as maestro,
    ):
        ids: list[str] = []
        under: dict[str, list[Breadcrumb]] = {}
        parents: list[int] = []
        for parent, crumbs in tree:
            above = parent if 0 <= parent < len(ids) else None
            work_id = maestro.work.start("t", parent=ids[above] if above is not None else None).session_id
            ids.append(work_id)
            parents.append(-1 if above is None else above)
            under[work_id] = []
            for one in crumbs:
                maestro.work.add_breadcrumb(work_id, one)
            at = len(ids) - 1
            while at >= 0:
                under[ids[at]] += crumbs
                at = parents[at]
        maestro.work._store.batch = batch
        for work_id in ids:
            while maestro.work._store.apply(work_id):
                pass
        for work_id in ids:
            unique = list({one.breadcrumb_id: one for one in under[work_id]}.values())
            if len(unique) < len(under[work_id]):
                continue  # the same random id twice: which of them was first is not the model's business
            wanted, found = model(unique), maestro.work.stats(work_id)
            for name in ("breadcrumbs", "tokens", "cost", "files_modified", "errors", "by_tool", "by_depth", "by_day"):
                assert getattr(found, name) == wanted[name], name
            assert {name: share["breadcrumbs"] for name, share in found.by_model.items()} == wanted["models"]
            assert found.cost_detail["unknown"] == wanted["unknown"]
            # read one by one through a filter that leaves all of them: the same
            assert maestro.work.stats(work_id, Filters(since_ms=0)) == found
            own = [one.breadcrumb for one in maestro.work.breadcrumbs(work_id)]
            assert totals_of(own)["breadcrumbs"] == len(own)
        check_keys(backend.raw)
