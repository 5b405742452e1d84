"""Who is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from maestro_state.local.listening import listen, users_between


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_user_of_a_connection_is_told(host: str):
    """Of whoever connects, not of whoever is connected to; nobody where there is no such connection."""
    with listen(host, 0) as line, socket.create_connection((host, line.getsockname()[1])) as asking:
        port, own = asking.getsockname()[1], line.getsockname()[1]
        assert users_between(port, own) == {os.getuid()}
    assert users_between(own, own) == set()
