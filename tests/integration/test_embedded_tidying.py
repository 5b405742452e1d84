"""The embedded server's log is written anew when its supervisor says so, and keeps what it held."""

from __future__ import annotations

import pytest
from maestro_workers.stack.idleness import Usage
from maestro_workers.stack.log_rewrite import QUIET_S

from maestro_state import Maestro
from maestro_state.local.embedded import ensure, paths
from tests.support.embedded_project import temporary_project
from tests.support.waiting import wait_until


def test_a_quiet_server_writes_its_log_anew(monkeypatch: pytest.MonkeyPatch):
    """Not at the first look, when nobody knows how quiet it is; then once, and nothing is lost by it."""
    with temporary_project() as folder:
        ensure(folder, supervise=False)
        usage = Usage(lambda: paths.socket_address(folder))
        with Maestro(folder) as maestro:
            maestro.sessions.start("tidy")
            for number in range(50):
                maestro.messages.add("user", f"{number}" * 100)
            assert not usage.tidy(1.0)
            assert not usage.tidy(1.0 + QUIET_S)  # the control: it is not large
            monkeypatch.setattr("maestro_workers.stack.log_rewrite.LARGE_BYTES", 1000)
            assert usage.tidy(1.0 + 2 * QUIET_S)

            def is_smaller() -> bool:
                found = maestro.server.connection.call("INFO", "persistence").decode()
                values = dict(line.split(":", 1) for line in found.splitlines() if ":" in line)
                return values["aof_rewrite_in_progress"] == "0" and int(values["aof_base_size"]) > 0

            wait_until(is_smaller, "the log was written anew")
            assert not usage.tidy(1.0 + 9 * QUIET_S)
            assert len(maestro.messages.last(100)) == 50
        usage.close()
