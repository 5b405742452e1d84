"""Work sessions on a real cluster: a tree whose members lie on different nodes is one tree all the same."""

from __future__ import annotations

import pytest
import redis

from maestro_state import Maestro
from maestro_state.net import ReplyError
from tests.support.key_leaks import check_keys
from tests.support.work_samples import crumb, post

pytestmark = pytest.mark.xdist_group("cluster")


def test_a_tree_spread_over_a_cluster(project, nodes):
    """Start, add, consume, count and end work across slots; each work session's own keys are in one."""
    with Maestro(project, redis_url=nodes.url) as maestro:
        top = maestro.work.start("track").session_id
        ids = [maestro.work.start("task", parent=top).session_id for _ in range(9)]
        for number, work_id in enumerate((top, *ids)):
            for part in range(number):
                maestro.work.add_breadcrumb(work_id, crumb(f"{number}.{part}"))
        post(project, (top, ids[0]), "20261116_000000_000000", {"breadcrumb_id": "file"})
        assert maestro.work.consume(top).applied == 46
        stats = maestro.work.stats(top)
        assert (stats.sessions, stats.breadcrumbs) == (10, 46)
        assert len(maestro.work.timeline(top)) == 56
        assert len(maestro.work.list()) == 10
        shown = [one.type for one in maestro.work.follow(top, until_idle_ms=50)]
        assert shown == []
        maestro.work.end(top, children="end")
        assert {one.status for one in maestro.work.list()} == {"completed"}
        assert len(maestro.work.sweep()) == 10
        sizes = []
        for node in nodes.nodes:
            with redis.Redis(unix_socket_path=node.socket) as raw:
                check_keys(raw)
                sizes.append(raw.dbsize())
        assert sum(size > 0 for size in sizes) > 1, "control: the tree really is spread"
        keys = maestro.server.terms.keys
        with pytest.raises(ReplyError, match="slots"):
            maestro.server.connection.call(
                "SUNION", keys.of_work(top, "children"), *(keys.of_work(one, "children") for one in ids)
            )
