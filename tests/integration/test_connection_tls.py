"""TLS addresses: the server's certificate is verified, timeouts hold, and missing files are named."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import closing

import pytest

from maestro_state.errors import ConfigError, ServerUnavailable
from maestro_state.net import connect, connect_async
from tests.support.servers import valkey
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Make a certificate for localhost that signs itself."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


class Terminator:
    """Speaks TLS in front of a server, one answer per request."""

    def __init__(self, certificate, server):
        self._server = server
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open = []
        self.port = self._listener.getsockname()[1]
        self.silent = threading.Event()
        self.requests = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                self._threads.append(threading.Thread(target=self._serve, args=(client,)))
                self._threads[-1].start()

    def _serve(self, client):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(self._server.socket)
            with self._context.wrap_socket(client, server_side=True) as secure:
                self._open.append(secure)
                while data := secure.recv(65536):
                    self.requests += 1
                    upstream.sendall(data)
                    answer = upstream.recv(65536)
                    if not self.silent.is_set():
                        secure.sendall(answer)

    def close(self):
        """Hang up on everybody."""
        for end in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        for end in (self._listener, *self._open):
            end.close()


@pytest.fixture
def tls(certificate, tmp_path):
    """Run a server behind TLS."""
    with valkey(tmp_path) as server, closing(Terminator(certificate, server)) as terminator:
        yield terminator


async def test_verified_server_is_used(tls, certificate):
    """A server whose certificate is known is used, blocking and over asyncio."""
    url = f"rediss://localhost:{tls.port}/1?ssl_ca_certs={certificate}/cert.pem"
    later = connect_async(url)
    with closing(connect(url)) as wire:
        wire.call("SET", "a", "é")
        assert await later.call("GET", "a") == "é".encode()
    await later.close()


async def test_stranger_is_refused(tls, certificate):
    """A certificate that is unknown, or for another name, is refused; the name check can be turned off."""
    unknown = f"rediss://localhost:{tls.port}"
    other_name = f"rediss://127.0.0.1:{tls.port}?ssl_ca_certs={certificate}/cert.pem"
    for url in (unknown, other_name):
        with pytest.raises(ServerUnavailable, match="certificate verify failed"):
            connect(url).call("PING")
        later = connect_async(url)
        with pytest.raises(ServerUnavailable, match="certificate verify failed"):
            await later.call("PING")
        await later.close()
    with closing(connect(f"{other_name}&ssl_check_hostname=false")) as wire:
        assert wire.call("PING") == b"PONG"


def test_silence_ends_over_tls(tls, certificate):
    """The timeout holds over TLS too, where the kernel's would not."""
    url = f"rediss://localhost:{tls.port}?ssl_ca_certs={certificate}/cert.pem&timeout=0.5"
    with closing(connect(url)) as wire:
        wire.retry_s = 30.0
        assert wire.call("PING") == b"PONG"
        tls.silent.set()
        wire.retry_s = 0.1  # only now: while it answers it may be slow
        with pytest.raises(ServerUnavailable, match="did not answer in time"):
            wire.call("PING")
        wait_until(lambda: tls.requests > 2, "the call was not made")


def test_missing_files_are_a_setting_to_correct(tmp_path):
    """A certificate file that is not there is an error in the setting, not in the network."""
    with pytest.raises(ConfigError, match="TLS files"):
        connect(f"rediss://localhost?ssl_ca_certs={tmp_path}/none.pem").call("PING")
