"""Fixtures of the tests with real servers and workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from maestro_state.embedded import socket_path
from tests.workshop import Workshop


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
