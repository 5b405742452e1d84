"""Fixtures of the tests with real servers and workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from maestro_state.local.embedded import socket_path
from tests.support.servers import Cluster, cluster, raw_call
from tests.support.workshop import Workshop


@pytest.fixture(scope="session")
def shared_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run one cluster for all tests that need one: it takes two seconds to agree that it is whole."""
    with cluster(tmp_path_factory.mktemp("c")) as running:
        yield running


@pytest.fixture
def nodes(shared_nodes: Cluster) -> Cluster:
    """Return the cluster with nothing on it. Its tests are one xdist group, so that they come one after the other."""
    for node in shared_nodes.nodes:
        raw_call(node, "FLUSHALL")
    return shared_nodes


@pytest.fixture
def shop(project: Path) -> Iterator[Workshop]:
    """Return a project with a server, and no worker yet."""
    with Workshop(project) as shop:
        yield shop


@pytest.fixture
def raw(shop: Workshop) -> Iterator[redis.Redis]:
    """Return a client that may look at anything on the project's server, and write it."""
    with redis.Redis(unix_socket_path=str(socket_path(shop.project))) as client:
        yield client
