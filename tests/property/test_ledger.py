"""What is charged and counted in any order, as often as anybody likes, against a plain model."""

from __future__ import annotations

from collections import Counter

import fakeredis
from hypothesis import given, settings
from hypothesis import strategies as st

from maestro_state.models.ledger import Counted, amount, tokens_by_kind
from maestro_state.models.run import Flags, Run, Usage
from maestro_state.state.calls import ledger as ops
from maestro_state.state.calls.terms import Terms
from maestro_state.state.keys import Keyspace
from tests.support.key_leaks import check_keys

DAY_MS = 24 * 3600 * 1000
NOW_MS = 1_800_000_000_000
_runs = st.tuples(st.sampled_from(["one--aaaaaa", "two--bbbbbb"]), st.sampled_from(["0001", "0002"]))
_usages = st.builds(
    Usage,
    tokens_input=st.none() | st.integers(0, 10**9),
    tokens_output=st.none() | st.integers(0, 10**6),
    cost=st.none() | st.integers(0, 10**10).map(lambda nano: nano / 10**9),
)
#: Which run, whether it is over now, what its tool told, and on which day.
_steps = st.lists(st.tuples(_runs, st.booleans(), _usages, st.integers(0, 1)), max_size=25)
#: Whose run it is: two of each.
USERS = {("one--aaaaaa", "0001"): "ana", ("one--aaaaaa", "0002"): "b:en", ("two--bbbbbb", "0001"): "b:en"}


@settings(max_examples=60)
@given(_steps)
def test_sums_are_those_of_what_was_told_last(steps: list[tuple[tuple[str, str], bool, Usage, int]]):
    """Each run counts once, which takes nothing back, and is charged what was told last, also later; days add up."""
    server, terms = fakeredis.FakeRedis(server=fakeredis.FakeServer(version=(7,))), _terms()
    told: dict[tuple[str, str], dict[str, int]] = {}
    over: dict[tuple[str, str], Usage] = {}
    for name, is_over, usage, day in steps:
        user, now_ms = USERS.get(name, "ana"), NOW_MS + day * DAY_MS
        call = ops.charge_run(terms, *name, user, usage, now_ms)
        if is_over:
            call = ops.count_run(terms, _run(name[1], user, usage), _counted(name, usage), now_ms)
        answer = call.read(server.eval(call.script.body, len(call.keys), *call.keys, *call.args))
        if is_over:
            assert answer == (name not in over)
        if name not in over or not is_over:
            before = told.setdefault(name, {"tokens": 0, "cost": 0})
            after = _amounts(usage)
            if is_over:
                after = {unit: max(value, before[unit]) for unit, value in after.items()}
                over[name] = usage
            before.update(after)

    names = [one for user in ("ana", "b:en") for session in ("one--aaaaaa", "two--bbbbbb")
             for one in ops.budget_names(user, session)]  # fmt: skip
    for name in set(names):
        charged = sum(amounts[name.unit] for run, amounts in told.items()
                      if name.scope == "everyone" or name.name in (run[0], USERS.get(run, "ana")))  # fmt: skip
        days = (0, 1) if name.period == "day" else (0,)
        sums = [_read(server, query) for day in days for query in ops.read_sums(terms, [name], NOW_MS + day * DAY_MS)]
        assert sum(found[name] for found in sums) == charged, name
    counters = _read(server, ops.read_counters(terms))
    runs = {key: value for key, value in counters.items() if key.startswith("runs|")}
    assert runs == ({"runs|echo|success": len(over)} if over else {})
    kinds = sum((Counter(tokens_by_kind(usage)) for usage in over.values()), Counter())
    assert {key.split("|")[2]: value for key, value in counters.items() if key.startswith("tokens|")} == dict(kinds)
    assert set(_read(server, ops.uncounted_runs(terms))) == set(told) - set(over)
    check_keys(server)


def _terms() -> Terms:
    return Terms(keys=Keyspace("maestro"), user="ana", ttl_ms=1, grace_ms=1, idle_after_ms=1, max_value_bytes=1)


def _read(server: fakeredis.FakeRedis, query: ops.Query):
    return query.read(_flat(server.execute_command(*query.command)))


def _flat(reply: object) -> object:
    """Return a hash as the wire has it: redis-py makes a dictionary of it."""
    return [part for pair in reply.items() for part in pair] if isinstance(reply, dict) else reply


def _amounts(usage: Usage) -> dict[str, int]:
    found = {}
    if usage.tokens_input is not None or usage.tokens_output is not None:
        found["tokens"] = (usage.tokens_input or 0) + (usage.tokens_output or 0)
    if usage.cost is not None:
        found["cost"] = amount(usage.cost, "cost")
    return found


def _run(run_id: str, user: str, usage: Usage) -> Run:
    flags = Flags(dry_run=False, confirm=False)
    return Run(id=run_id, tool="echo", prompt_source="cli", flags=flags, status="success", created_at="", user=user,
               context_refs=[], context_version=[], usage=usage)  # fmt: skip


def _counted(name: tuple[str, str], usage: Usage) -> Counted:
    return Counted(session_id=name[0], run_id=name[1], tool="echo", status="success", seconds=None, waited=None,
                   tokens=tokens_by_kind(usage), cost=usage.cost)  # fmt: skip
