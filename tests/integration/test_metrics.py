"""`/metrics`: read by Prometheus' own parsers, true to what was run, the same from every server, and small."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as families

from maestro_state import Maestro
from maestro_state.models.claim import Ended
from maestro_state.models.run import Usage
from tests.support.backends import Backend, Clock
from tests.support.served import serving
from tests.support.servers import free_port, valkey
from tests.support.waiting import wait_until
from tests.support.workshop import Workshop

ROOT = Path(__file__).parents[2]
#: What is promised, with the labels of each.
PROMISED = {
    "maestro_up": set(), "maestro_sessions": {"state"}, "maestro_messages_total": set(),
    "maestro_runs_total": {"tool", "status"}, "maestro_run_seconds_bucket": {"tool", "le"},
    "maestro_tokens_total": {"tool", "kind"}, "maestro_cost_usd_total": {"tool"},
    "maestro_unarchived_seconds": set(), "maestro_workers": set(), "maestro_queue_length": set(),
    "maestro_queue_wait_seconds_bucket": {"le"}, "maestro_dirty_sessions": set(), "maestro_stream_followers": set(),
    "maestro_errors_total": {"kind"}, "maestro_damaged_records": set(), "maestro_last_sweep_timestamp_seconds": set(),
}  # fmt: skip
#: A command line that would end a label, a line and the format, if it were written as it is.
HOSTILE = 'cat "x"} 1\\ #'

CLAUDE = f"""#!{sys.executable} -IS
import json
usage = {{"input_tokens": 10, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 5, "output_tokens": 7}}
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "c",
                  "total_cost_usd": 0.125, "usage": usage}}))
"""


def values(text: str, parse=families) -> dict[tuple[str, ...], float]:
    """Return every sample by its name and labels, as a parser of Prometheus reads it."""
    found = [sample for family in parse(text) for sample in family.samples]
    return {(one.name, *(f"{name}={one.labels[name]}" for name in sorted(one.labels))): one.value for one in found}


def test_what_was_run_is_told_by_every_server(shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs, tokens and cost as they were, in both formats; a server that was started later tells the same."""
    (tmp_path / "claude").write_text(CLAUDE)
    (tmp_path / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    shop.start_worker(PATH=os.environ["PATH"])
    maestro = shop.open(user="ana-lima")
    session = maestro.sessions.start("secret-name")
    with serving(shop.project) as first, first.client() as client:
        for tool in ("claude", "claude", "echo", HOSTILE):
            maestro.runs.wait(maestro.runs.start("p", session.id, tool=tool), session.id)
        maestro.ledger.count_errors("sweep", 2)
        maestro.sweep()
        wait_until(lambda: sum(maestro.ledger.counters().get(f"runs|{tool}|{status}", 0) for tool in
                   ("claude", "echo", "other") for status in ("success", "error")) == 4, "all are counted")  # fmt: skip
        told = client.get("/metrics")
        assert (told.status_code, told.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        open_told = client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        assert open_told.headers["content-type"].startswith("application/openmetrics-text")
        found = values(told.text)
    assert found["maestro_up",] == 1
    assert found["maestro_runs_total", "status=success", "tool=claude"] == 2
    assert found["maestro_run_seconds_count", "tool=claude"] == 2
    assert found["maestro_run_seconds_bucket", "le=+Inf", "tool=claude"] == 2
    tokens = {kind: found.get(("maestro_tokens_total", f"kind={kind}", "tool=claude")) for kind in
              ("input", "cache_read", "cache_write", "output", "reasoning")}  # fmt: skip
    assert tokens == {"input": 20, "cache_read": 60, "cache_write": 10, "output": 14, "reasoning": None}
    assert found["maestro_cost_usd_total", "tool=claude"] == 0.25
    assert found["maestro_queue_wait_seconds_count",] == 4
    assert found["maestro_sessions", "state=com_saida"] == 1
    assert found["maestro_errors_total", "kind=sweep"] == 2
    assert (found["maestro_workers",], found["maestro_queue_length",]) == (1, 0)
    names = {name for name, *_ in found}
    assert set(PROMISED) <= names
    labels = {
        name: {label.partition("=")[0] for one, *rest in found if one == name for label in rest} for name in names
    }
    assert {name: labels[name] for name in PROMISED} == PROMISED
    for private in (session.id, "secret-name", "ana-lima", "cat"):
        assert private not in told.text
    assert {label for name, *rest in found if "runs_total" in name for label in rest if "tool" in label} == {
        "tool=claude", "tool=echo", "tool=other"}  # fmt: skip
    is_steady = lambda row: "timestamp" not in row[0]  # noqa: E731
    assert dict(filter(is_steady, values(open_told.text, openmetrics).items())) == dict(
        filter(is_steady, found.items())
    )
    with serving(shop.project) as second, second.client() as client:
        again = values(client.get("/metrics").text)
    assert {row: again[row] for row in found if "_total" in row[0]} == {
        row: value for row, value in found.items() if "_total" in row[0]}  # fmt: skip
    check_dashboard(names)


def check_dashboard(exported: set[str]) -> None:
    """Hold the dashboard to what is exported: no panel asks for what nobody tells."""
    board = json.loads((ROOT / "deploy/grafana/maestro.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    used = {name for expression in asked for name in re.findall(r"maestro_\w+", expression)}
    assert used <= exported, used - exported
    assert {name for name in PROMISED if name.startswith("maestro_")} <= used, "every metric is on it"
    # What is the team's is told by every server alike: several of them are one.
    once = re.compile(r"(max|min)( by \([^)]*\))? ?\((rate\(|increase\()?maestro_")
    assert [one for one in asked if not once.search(one)] == ["sum(maestro_stream_followers)"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    assert {target["datasource"]["uid"] for panel in board["panels"] for target in panel.get("targets", [])} == {
        "${datasource}"}  # fmt: skip
    assert [one["name"] for one in board["templating"]["list"]] == ["datasource"]
    places = [panel["gridPos"] for panel in board["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    cells = [(x, y) for one in places for x in range(one["x"], one["x"] + one["w"])
             for y in range(one["y"], one["y"] + one["h"])]  # fmt: skip
    assert len(cells) == len(set(cells)), "panels lie over each other"


def test_who_may_ask_and_a_server_that_is_away(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A token that reads is enough and none is too little; away is 0, with status 200, whoever asks."""
    with valkey(tmp_path, port=free_port()) as server:
        monkeypatch.setenv("MAESTRO_REDIS_URL", f"redis://127.0.0.1:{server.port}")
        with Maestro(project) as maestro:
            token = maestro.tokens.add("prometheus", role="read").token
        with serving(project, "--require-auth") as running, running.client() as nobody, running.client(token) as reader:
            refused = nobody.get("/metrics")
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="maestro"')
            assert values(reader.get("/metrics").text)["maestro_up",] == 1
            server.kill()
            for client in (reader, nobody):
                away = client.get("/metrics")
                status = (200, {("maestro_up",): 0.0, ("maestro_stream_followers",): 0.0})
                wanted = status if client is reader else (401, None)
                assert (away.status_code, values(away.text) if away.status_code == 200 else None) == wanted


async def test_messages_are_counted_once_and_where_they_were_said(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    """Of all sessions, in pages where there are many; a fork's are not said anew."""
    from maestro_state.state.calls import metrics as ops

    monkeypatch.setattr(ops, "TOLD_MAX", 2)
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        assert (await maestro.metrics.read()).messages == 0
        for number in range(5):
            clock.advance(seconds=20)
            session = await maestro.sessions.start(f"s{number}")
            for _ in range(number):
                await maestro.messages.add("user", "x", session.id)
        seen = [(await maestro.metrics.read()).messages for _ in range(5)]
        assert seen == sorted(seen)
        assert seen[-1] == 10
        await maestro.sessions.fork(session.id, "again")
        await maestro.messages.add("user", "one more", session.id)
        clock.advance(seconds=1)
        assert [(await maestro.metrics.read()).messages for _ in range(3)][-1] == 11


async def test_asking_costs_the_same_however_many_sessions_there_are(real: Backend):
    """Counted by the server: commands of one reading, with ten sessions and with a hundred that nobody uses."""
    clock, costs = Clock(), []
    async with real.open_async(now_ms=clock) as maestro:
        for many in (10, 90):
            for number in range(many):
                session = await maestro.sessions.start(f"s{number}")
            run = await maestro.runs.start("p", session.id, tool="echo")
            claim = await maestro.claims.claim(session.id, run.id, "owner")
            await maestro.claims.finish(claim, Ended(status="success", usage=Usage(tokens_input=1)))
            await maestro.ledger.count(session.id, run.id)
            await maestro.metrics.read()
            clock.advance(seconds=60)
            await maestro.metrics.read()
            clock.advance(seconds=60)
            before = real.raw.info("stats")["total_commands_processed"]
            found = await maestro.metrics.read()
            costs.append(real.raw.info("stats")["total_commands_processed"] - before)
            assert sum(found.sessions.values()) in (10, 100)
    assert costs[0] == costs[1]
