"""The embedded server's log after a power cut: it starts from what is whole, and the rest is kept and named."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.errors import ServerUnavailable
from maestro_state.local import embedded
from maestro_state.local.embedded import log_repair
from maestro_state.local.embedded.paths import data_path
from tests.support.embedded_project import call, ended_project

#: Places in the last part of the log at which it is damaged, and in how many of them a server is really started.
PLACES, STARTED = 50, 6
VALUES = 60

KINDS = {
    "cut": lambda log, at: log[:at],
    "zeros": lambda log, at: log[:at] + bytes(len(log) - at + 4096),
    "garbage": lambda log, at: log[:at] + random.Random(at).randbytes(700),
}

project = ended_project


@pytest.fixture
def written(project) -> tuple[Path, bytes]:
    """Give the log of a stopped server with known values in it, some written in transactions, and its content."""
    embedded.ensure(project, supervise=False)
    for number in range(VALUES):
        # A script that writes twice is a transaction in the log.
        call(project, "EVAL", f"redis.call('SET', 'a{number}', 1) redis.call('SET', 'b{number}', 1) return 1", "0")
    embedded.stop(project)
    (log,) = Path(data_path(project)).glob("data-*/*.incr.aof")
    return log, log.read_bytes()


def _whole_before(log: bytes, at: int) -> int:
    """Count the pairs of values whose transaction ends before a place."""
    return log[:at].count(b"*1\r\n$4\r\nEXEC\r\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_end_is_set_aside_and_nothing_whole_is_lost(project, written, kind):
    """At fifty places the log is cut exactly behind the last whole transaction; the server starts from it."""
    log, content = written
    places = random.Random(7).sample(range(len(content) // 4, len(content)), PLACES)
    for tried, at in enumerate(places):
        damaged = KINDS[kind](content, at)
        log.write_bytes(damaged)
        if tried < STARTED:
            embedded.ensure(project, supervise=False)
            values = call(project, "DBSIZE")
            embedded.stop(project)
            assert int(values) == 2 * _whole_before(damaged, at)
        else:
            with embedded.paths.open_data_folder(project) as folder:
                assert embedded.server.mend_log(folder)
        whole = log.stat().st_size
        assert log.read_bytes() == damaged[:whole]
        assert _whole_before(damaged, whole) == _whole_before(damaged, at)
        (aside,) = Path(data_path(project), log_repair.ASIDE).iterdir()
        assert aside.read_bytes() == damaged[whole:]
        assert aside.name.startswith(f"{log.name}.{whole}.")
        aside.unlink()


def test_control_the_server_alone_does_not_start_from_zeros(project, written, monkeypatch):
    """Without the repair the project is locked."""
    log, content = written
    log.write_bytes(content + bytes(4096))
    monkeypatch.setattr(embedded.server, "mend_log", lambda _: None)
    with pytest.raises(ServerUnavailable, match="Bad file format"):
        embedded.ensure(project, supervise=False)


def test_what_was_cut_is_said_once_and_by_doctor(project, written, caplog):
    """One warning when it happens; doctor names the file for as long as it is there."""
    log, content = written
    log.write_bytes(content + bytes(100))
    with Maestro(project) as maestro:
        found = {check.name: check for check in maestro.health.checks()}
        (said,) = [record for record in caplog.records if "server's log was damaged: 100 bytes" in record.message]
        assert said.levelname == "WARNING"
        assert found["server log"].status == "warn"
        assert "(100 bytes)" in found["server log"].detail
        (aside,) = Path(data_path(project), log_repair.ASIDE).iterdir()
        assert aside.name in found["server log"].detail
        aside.unlink()
        assert "server log" not in {check.name for check in maestro.health.checks()}  # control
        maestro.stack.stop()


def test_damage_in_the_middle_is_cut_only_when_asked(project, written):
    """Whole commands behind the damage are not left out before somebody says so; then they are kept aside as well."""
    log, content = written
    middle = content.index(b"*1\r\n$5\r\nMULTI", len(content) // 2)
    damaged = content[:middle] + bytes(64) + content[middle:]
    log.write_bytes(damaged)
    with pytest.raises(ServerUnavailable, match=f"damaged at byte {middle} of {len(damaged)}") as caught:
        embedded.ensure(project, supervise=False)
    assert "doctor --repair" in caught.value.hint
    assert log.read_bytes() == damaged
    with Maestro(project) as maestro:
        (done,) = maestro.health.repair()
        assert f"after its first {middle}" in done
        assert maestro.health.repair() == []
        maestro.stack.stop()
    (aside,) = Path(data_path(project), log_repair.ASIDE).iterdir()
    assert aside.read_bytes() == damaged[middle:]


@pytest.mark.parametrize("content", [b"", bytes(88), None], ids=["empty", "zeros", "none"])
def test_a_lost_list_of_files_is_written_anew(project, written, content):
    """An empty or zeroed manifest, or none, does not cost the log that lies beside it."""
    (manifest,) = Path(data_path(project)).glob(f"data-*/{log_repair.MANIFEST}")
    before = manifest.read_bytes()
    if content is None:
        manifest.unlink()
    else:
        manifest.write_bytes(content)
    with embedded.paths.open_data_folder(project) as folder:
        assert embedded.server.mend_log(folder)
        assert embedded.server.mend_log(folder) is None
    assert manifest.read_bytes() == before
    embedded.ensure(project, supervise=False)
    assert call(project, "DBSIZE") == str(2 * VALUES)


def test_without_room_for_the_rest_nothing_is_cut(project, written, monkeypatch):
    """What cannot be kept is not cut."""
    log, content = written
    log.write_bytes(content + b"\0garbage")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(ServerUnavailable, match="cannot be set aside: No space left"):
        embedded.ensure(project, supervise=False)
    assert log.read_bytes() == content + b"\0garbage"
