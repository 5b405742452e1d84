"""What doctor makes of what a server says of itself."""

from __future__ import annotations

import pytest

from maestro_state.state.calls import health

GOOD = {"redis_version": "7.2.4", "aof_enabled": "1", "aof_last_write_status": "ok", "maxmemory_policy": "noeviction",
        "used_memory": "1000000", "maxmemory": "0", "total_system_memory": "8000000000"}  # fmt: skip


def statuses(info, wait_replicas=0):
    """Return the status of each check by its name."""
    return {check.name: check.status for check in health.judge(info, wait_replicas)}


def test_a_good_server_is_good():
    """Nothing is said against a server that persists, evicts nothing and has room."""
    assert set(statuses(GOOD).values()) == {"ok"}


@pytest.mark.parametrize(
    ("said", "name", "status"),
    [
        ({"redis_version": "6.2.14"}, "version", "fail"),
        ({"redis_version": "nonsense"}, "version", "fail"),
        ({"aof_enabled": "0"}, "persistence", "warn"),
        ({"aof_last_write_status": "err"}, "persistence", "fail"),
        ({"maxmemory_policy": "allkeys-lru"}, "eviction", "warn"),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": "9000000"}, "eviction", "fail"),
        ({"maxmemory": "1050000"}, "memory", "warn"),
        ({"used_memory": "7000000000"}, "memory", "warn"),
    ],
)
def test_each_weakness_is_named_with_what_to_do(said, name, status):
    """One check speaks up, and says what to do; the others stay quiet."""
    found = {check.name: check for check in health.judge(GOOD | said)}
    assert found.pop(name).status == status
    assert {check.status for check in found.values()} == {"ok"}
    assert all(check.fix for check in health.judge(GOOD | said) if check.status != "ok")


def test_replicas_that_are_waited_for_must_be_there():
    """Whoever asks for confirmations by replicas is told when there are too few."""
    assert statuses(GOOD | {"connected_slaves": "1"}, 2)["replicas"] == "fail"
    assert statuses(GOOD | {"connected_slaves": "2"}, 2)["replicas"] == "ok"
    assert "replicas" not in statuses(GOOD)


@pytest.mark.parametrize(
    ("synced", "wait_replicas", "status"),
    [(None, 0, "ok"), ("always", 0, "ok"), ("everysec", 0, "warn"), ("everysec", 1, "warn"), ("no", 0, "warn"),
     ("no", 1, "ok")],
)  # fmt: skip
def test_when_the_file_is_synced_matters(synced, wait_replicas, status):
    """Syncing once a second loses acknowledged writes; leaving it to the system is safe with replicas only."""
    info = GOOD | {"connected_slaves": "1"}
    found = {check.name: check for check in health.judge(info, wait_replicas, synced)}["persistence"]
    assert found.status == status
    assert (found.fix is None) == (status == "ok")


@pytest.mark.parametrize(
    ("is_open", "is_local", "is_encrypted", "status"),
    [
        (True, False, True, "fail"),
        (True, True, False, "warn"),
        (False, False, False, "warn"),
        (False, False, True, "ok"),
        (False, True, False, "ok"),
        (None, False, False, "warn"),
        (None, False, True, None),
    ],
)
def test_who_else_can_reach_the_server(is_open, is_local, is_encrypted, status):
    """A server that lets strangers in is a failure where strangers are; an unencrypted one elsewhere a warning."""
    found = health.judge_access(is_open=is_open, is_local=is_local, is_encrypted=is_encrypted)
    assert [check.status for check in found] == ([status] if status else [])


@pytest.mark.parametrize(
    ("swept_at", "status"), [(0, "warn"), (1_000_000, "warn"), (9_900_000, "ok"), (10_000_500, "ok")]
)
def test_a_late_sweeper_is_told(swept_at, status):
    """Never swept and long not swept are warnings; a clock a little behind is not."""
    assert health.judge_sweeper(swept_at, 10_000_000, 60_000).status == status


@pytest.mark.parametrize(
    ("off_s", "said"),
    [(0, None), (9, None), (-9, None), (11, "11 s ahead of"), (-185, "3 min behind"), (7300, "2 h ahead of"),
     (-200_000, "2 d behind")],
)  # fmt: skip
def test_a_machine_whose_clock_is_off_is_told(off_s, said):
    """Runs take their turn, and budgets have their day, by the clock of whoever asks or works."""
    found = health.judge_clock(1_800_000_000_000 + off_s * 1000, 1_800_000_000_000)
    assert found.status == ("warn" if said else "ok")
    assert said is None or f"this machine is {said} the server" in found.detail
    assert bool(found.fix) == bool(said)


def test_missing_workers_are_told():
    """Runs wait while nobody listens."""
    assert [health.judge_workers(count).status for count in (0, 2)] == ["warn", "ok"]


def test_a_cluster_needs_a_queue_elsewhere():
    """RQ does not run on a cluster: the setting that names another server for it is said."""
    found = health.judge_queue("redis+cluster://h", None)
    assert found[0].status == "fail"
    assert "MAESTRO_QUEUE_URL" in (found[0].fix or "")
    assert health.judge_queue("redis+cluster://h", "redis://q") == health.judge_queue("redis://h", None) == []


@pytest.mark.parametrize(
    ("said", "synced", "status", "part"),
    [
        ({}, "always", "ok", "append-only file"),
        ({}, "no", "warn", "no filters"),
        ({"min_slaves_good_slaves": "0"}, "always", "fail", "disk is full"),
    ],
)
def test_the_embedded_servers_log_is_judged_by_what_keeps_it(said, synced, status, part):
    """A full disk and a kernel without filters are told; what a team's server would be told about syncing is not."""
    checks = health.judge(GOOD | said, 0, synced, is_embedded=True)
    found = {check.name: check for check in checks}["persistence"]
    assert (found.status, part in found.detail, bool(found.fix)) == (status, True, status != "ok")
