"""The frameworks' own tests, as their source distributions have them, with their sessions kept in Maestro.

`make test-reach` fetches them; nothing of theirs is kept here. What is left out cannot be asked of another store, and
each says why.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

SUITES = Path(__file__).parent / "suites"
FETCHED = Path(sys.prefix) / "suites"


class Suite(NamedTuple):
    """Tests of a framework: where they are, what keeps their sessions in Maestro, and which are left out."""

    source: str
    plugin: str
    files: tuple[str, ...]
    chosen: str  #: as pytest's `-k` takes it
    least: int  #: that pass: a suite that selects nothing proves nothing


LANGGRAPH = Suite(
    "langgraph-1",
    "langgraph_in_maestro",
    (
        "test_time_travel",
        "test_time_travel_async",
        "test_interruption",
        "test_interrupt_state",
        "test_strict_resume",
        "test_subgraph_persistence",
        "test_subgraph_persistence_async",
        "test_checkpoint_migration",
        "test_delta_channel_exit_mode",
        "test_delta_channel_fork",
        "test_delta_channel_parallel_order",
        "test_delta_channel_subgraph",
        "test_delta_channel_to_plain",
        "test_delta_channel_update_state",
        "test_large_cases",
        "test_large_cases_async",
    ),
    # One of the savers that can be had without a container: all are Maestro's here.
    "sqlite and not sqlite_aes",
    200,
)
OPENAI = Suite(
    "openai_agents",
    "openai_in_maestro",
    (
        "memory/test_session",
        "memory/test_session_limit",
        "memory/test_session_context_wrapper",
        "memory/test_session_persistence_sanitize",
        "memory/test_openai_responses_compaction_session",
        "extensions/memory/test_redis_session",
        "extensions/memory/test_encrypt_session",
    ),
    " and ".join(
        f"not {one}"
        for one in (
            # Look into a database, a pool or a client of redis-py's, or wait for an error of theirs.
            *("worker_thread", "retired_connections", "corrupt", "file_lock", "releases_write_lock", "rolls_back"),
            *(
                "rollback_failure",
                "quarantined",
                "post_commit",
                "settled_pop",
                "settled_clear",
                "authoritative_outcome",
            ),
            *("next_id", "created_at", "connection_failure", "failed_cleanup", "cancelled_cleanup", "redis_history"),
            *("clear_add_metadata", "overridden_storage", "after_redis_commit", "counter_key", "redis_compaction"),
            # Close without awaiting, or name the class in the message.
            *("closed_rejects_empty", "closed_operations", "close_is_idempotent", "ping_raises_after_close"),
            # Ask for what the SDK's own databases alone do: replace a part of a history, check what is popped.
            *("rollback_budget", "unencrypted_stored_history", "wrong_key", "rechecks_authentication"),
            *("authentication_is_atomic", "authentication_rollback", "scan_budget_rejects"),
        )
    ),
    200,
)
CLAUDE = Suite(
    "claude_agent_sdk",
    "claude_in_maestro",
    (
        "test_session_helpers_store",
        "test_session_import",
        "test_session_resume",
        "test_session_store_conformance",
        "test_session_summary",
        "test_transcript_mirror",
    ),
    " and ".join(
        f"not {one}"
        for one in (
            "trio",  # Maestro's connections are asyncio's
            # Look into the dictionaries of the store in memory.
            *("continue_picks", "continue_skips", "continue_tie", "clear_helper"),
            # Wait for a store that answers within so many turns of the event loop: none that is asked over a socket.
            *("concurrency_is_bounded", "gap_fill_bounded", "cancelled_after_mkdtemp", "eager_flush_mode"),
        )
    ),
    180,
)


@pytest.mark.parametrize("suite", [LANGGRAPH, OPENAI, CLAUDE], ids=lambda suite: suite.plugin)
def test_the_frameworks_own_tests_pass(suite: Suite, tmp_path: Path):
    """Unchanged, where they were fetched."""
    archive = next(FETCHED.glob(f"{suite.source}*.tar.gz"), None)
    if archive is None:
        pytest.skip("the framework's tests were not fetched: make test-reach does")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    found = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", suite.plugin, "-q", "--no-header", "-p", "no:randomly"),
            *("-p", "no:cacheprovider", "-k", suite.chosen, *(f"tests/{name}.py" for name in suite.files)),
        ],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(SUITES), "NO_DOCKER": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-2000:]
    passed = found.stdout.splitlines()[-1].partition(" passed")[0].split()[-1]
    assert int(passed) >= suite.least
