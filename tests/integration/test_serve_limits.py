"""Who is let in, for how long and how often: each refusal by a real server, each beside what is let in."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import httpx2
import pytest

from maestro_state import Maestro
from tests.integration.test_serve_guards import made, run
from tests.support.cli_runs import MAESTRO
from tests.support.followers import parsed
from tests.support.served import noting_browser, serving, started
from tests.support.topology import make_certificates
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("served")

SITE = "https://dashboard.example"


def test_a_revoked_token_ends_its_streams(project: Path):
    """Streams that were opened with it, or with a browser's cookie made from it, end; others go on."""
    session_id = started(project)
    ana, bob = made(project, "ana"), made(project, "bob")
    path = f"/v1/sessions/{session_id}/events"
    with (
        serving(project, "--require-auth", "--no-web") as server,
        server.client(ana["token"]) as one,
        server.client() as browser,
        server.client(bob["token"]) as other,
    ):
        browser.post("/v1/signin", json={"token": ana["token"]})
        lines = []
        for client in (one, browser, other):
            stream = client.stream("GET", path, params={"from": "start"})
            lines.append((stream, parsed(stream.__enter__().iter_lines())))
            assert next(lines[-1][1]).type == "session.started"
        run(project, "token", "revoke", ana["id"])
        for _, told in lines[:2]:
            with pytest.raises(httpx2.TransportError):
                next(told)
        assert one.get("/v1/sessions").status_code == 401
        with Maestro(project) as maestro:
            maestro.messages.add("user", "still there?", session_id)
        assert next(lines[2][1]).data["content"] == "still there?"
        for stream, _ in lines:
            stream.__exit__(None, None, None)


def test_what_each_role_may(project: Path):
    """Upkeep, tokens, settings and command lines are for admins; each is let in where another is not."""
    tokens = {role: made(project, role, *words)["token"]
              for role, words in (("read", ["--read-only"]), ("write", []), ("admin", ["--admin"]))}  # fmt: skip
    here = f"/v1/sessions/{started(project)}"
    asked = [
        ("GET", "/v1/sessions", None, "read"),
        ("POST", f"{here}/preview", {"prompt": "x", "tool": "claude"}, "read"),
        ("POST", f"{here}/messages", {"role": "user", "content": "x"}, "write"),
        ("POST", f"{here}/tool", {"tool": "claude"}, "write"),
        ("POST", f"{here}/tool", {"tool": "cat /etc/hostname"}, "admin"),
        ("POST", f"{here}/tool", {"tool": "claude", "arguments": ["--verbose"]}, "admin"),
        ("POST", f"{here}/runs", {"prompt": "x", "tool": "cat", "dry": True}, "admin"),
        ("POST", "/v1/sessions", {"name": "x", "tool": "cat"}, "admin"),
        ("GET", "/v1/config", None, "admin"),
        ("GET", "/v1/tokens", None, "admin"),
        ("POST", "/v1/tokens", {"user": "eve", "role": "admin"}, "admin"),
        ("GET", "/v1/budgets", None, "read"),
        ("PUT", "/v1/budgets", {"user": "ana", "cost": 5}, "admin"),
        ("DELETE", "/v1/budgets?user=ana", None, "admin"),
        ("POST", "/v1/search/rebuild", None, "admin"),
        ("GET", "/v1/tools/workers", None, "read"),
        ("POST", "/v1/sweep", {}, "admin"),
        ("POST", "/v1/cleanup", {"dry_run": True}, "admin"),
    ]
    order = ("read", "write", "admin")
    with serving(project, "--require-auth", "--no-web") as server:
        for method, path, body, least in asked:
            found = {}
            for role in order:
                with server.client(tokens[role]) as client:
                    found[role] = client.request(method, path, json=body).status_code
            refused = [role for role in order if found[role] == 403]
            assert refused == list(order[: order.index(least)]), (path, found)
            assert all(found[role] in (200, 201) for role in order if role not in refused), (path, found)


def test_what_strangers_send_is_bounded(project: Path):
    """A head without end is cut off, a large one is not read; a request of usual size beside them is answered."""
    with serving(project, "--require-auth") as server, server.client() as client:
        line = socket.create_connection(("127.0.0.1", server.port))
        line.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: ")
        with pytest.raises(ConnectionError):
            line.sendall(b"x" * 64_000_000)
        line.close()
        assert client.get("/v1/health", headers={"x": "x" * 30_000}).status_code == 200
        assert client.post("/v1/signin", json={"token": "x" * 20_000}).status_code == 413
        assert client.post("/v1/signin", json={"token": "x" * 200}).status_code in (400, 401)


def test_other_sites_only_where_they_are_named(project: Path):
    """A named site's pages may ask, with a token and never with a cookie; nobody else's may."""
    token = made(project, "ana")["token"]
    with serving(project, "--require-auth", "--allow-origin", SITE) as server, server.client(token) as client:
        crossing = {"origin": SITE, "sec-fetch-site": "cross-site"}
        let_in = client.post("/v1/sessions", json={"name": "x"}, headers=crossing)
        assert (let_in.status_code, let_in.headers["access-control-allow-origin"]) == (201, SITE)
        assert "access-control-allow-credentials" not in let_in.headers
        asked = client.options("/v1/sessions", headers={**crossing, "access-control-request-method": "POST"})
        assert (asked.status_code, "POST" in asked.headers["access-control-allow-methods"]) == (204, True)
        for site in ("https://dashboard.example.evil", "null", "http://dashboard.example"):
            refused = client.get("/v1/sessions", headers={"origin": site})
            assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)
        with server.client() as browser:
            browser.post("/v1/signin", json={"token": token})
            assert browser.get("/v1/sessions").status_code == 200
            assert browser.get("/v1/sessions", headers=crossing).status_code == 403
    with serving(project, "--require-auth") as server, server.client(token) as client:
        assert client.get("/v1/sessions", headers=crossing).status_code == 403


def test_tls_and_its_cookie(project: Path, tmp_path: Path):
    """With a certificate it serves others over TLS alone, and the cookie goes over nothing else."""
    make_certificates(tmp_path)
    files = ("--tls-cert", str(tmp_path / "server.crt"), "--tls-key", str(tmp_path / "server.key"))
    token = made(project, "ana")["token"]
    with serving(project, "--host", "0.0.0.0", "--require-auth", *files) as server:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        url = f"https://localhost:{server.port}"
        with httpx2.Client(base_url=url, verify=context, trust_env=False, timeout=60) as client:
            signed = client.post("/v1/signin", json={"token": token})
            assert re.match(rf"__Host-maestro-{server.port}=.*; Secure", signed.headers["set-cookie"])
            assert client.get("/v1/sessions").status_code == 200
            (secure,) = client.cookies.items()
            client.cookies.clear()
            # By the plain name any neighbour of this site could have set it, to have somebody work as somebody else.
            plainly = {"cookie": f"maestro-{server.port}={secure[1]}"}
            assert client.get("/v1/sessions", headers=plainly).status_code == 401
            assert client.get("/v1/sessions", headers={"cookie": "=".join(secure)}).status_code == 200
        plain = socket.create_connection(("127.0.0.1", server.port))
        plain.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" not in plain.recv(100)
        plain.close()
    (tmp_path / "server.key").write_text("no key")
    done = run(project, "serve", "--port", "0", "--require-auth", *files)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_behind_a_proxy_it_says_so(project: Path):
    """An explicit --behind-proxy serves others without TLS of its own; the cookie is a secure one."""
    token = made(project, "ana")["token"]
    options = ("--host", "0.0.0.0", "--require-auth", "--behind-proxy", "--allow-host", "maestro.example")
    with serving(project, *options) as server:
        assert httpx2.get(f"{server.url}/v1/health", trust_env=False).status_code == 200  # what it says is an address
        headers = {"host": "maestro.example", "origin": "https://maestro.example"}
        signed = httpx2.post(
            f"http://127.0.0.1:{server.port}/v1/signin", json={"token": token}, headers=headers, trust_env=False
        )
        assert (signed.status_code, "Secure" in signed.headers["set-cookie"]) == (200, True)
        clear = httpx2.post(
            f"http://127.0.0.1:{server.port}/v1/signin",
            json={"token": token},
            headers=headers | {"origin": "http://maestro.example"},
            trust_env=False,
        )
        assert clear.status_code == 403  # a page that came in the clear may be anybody's


def test_open_signs_a_browser_in_once(project: Path, tmp_path: Path):
    """The browser is given a code that works one time; what it is given signs nobody else in."""
    env, given = noting_browser(tmp_path)
    with serving(project, "--require-auth", "--open", env=env) as server:
        wait_until(given.exists, "the browser was started")
        url, _, code = given.read_text().partition("#signin=")
        assert url == f"{server.url}/"
        with server.client() as client, server.client() as other:
            assert client.get("/v1/sessions").status_code == 401
            assert client.post("/v1/signin", json={"token": code}).json()["role"] == "admin"
            assert client.get("/v1/sessions").status_code == 200
            assert other.post("/v1/signin", json={"token": code}).status_code == 401
            assert client.post("/v1/signout").status_code == 200
            assert client.get("/v1/sessions").status_code == 401


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_a_code_is_of_no_use_to_another_user(project: Path, tmp_path: Path):
    """They can read it in the browser's command line; nor do they spend it."""
    env, given = noting_browser(tmp_path)
    ask = (
        "import os, socket, sys; os.setuid(65534); line = socket.socket();"
        "line.connect(('127.0.0.1', int(sys.argv[1])));"
        "line.sendall(sys.argv[2].encode()); print(line.recv(12).decode())"
    )
    with serving(project, "--require-auth", "--open", env=env) as server, server.client() as client:
        wait_until(given.exists, "the browser was started")
        body = json.dumps({"token": given.read_text().partition("#signin=")[2]})
        head = "POST /v1/signin HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        words = [sys.executable, "-c", ask, str(server.port), f"{head}{len(body)}\r\n\r\n{body}"]
        stranger = subprocess.run(words, capture_output=True, text=True)
        assert stranger.stdout == "HTTP/1.1 401\n", stranger
        assert client.post("/v1/signin", content=body, headers={"content-type": "application/json"}).status_code == 200


def test_lines_of_the_log_have_the_trace_and_no_token(project: Path, tmp_path: Path):
    """What a caller's trace is called is in every line about its request; a token given as an id is masked."""
    log, eve, ana = tmp_path / "log", made(project, "eve", "--admin"), made(project, "ana", "--read-only")
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    with serving(project, "--require-auth", "--no-web", log=log) as server:
        with server.client(eve["token"], **trace) as client:
            client.post("/v1/sessions", json={"name": "x"})
            assert client.delete(f"/v1/tokens/{ana['token']}").status_code == 404
            client.post("/v1/signin", json={"token": eve["token"]})
        with server.client(ana["token"], **trace) as client:
            client.post("/v1/sessions", json={"name": "x"})
        with server.client("wrong", **trace) as client:
            client.get("/v1/sessions")
        with server.client(eve["token"], traceparent="nonsense") as client:
            client.post("/v1/sessions", json={"name": "x"})
    *traced, alone = map(json.loads, log.read_text().splitlines())
    assert [line["event"] for line in traced] == ["audit", "audit", "signed_in", "refused", "refused"]
    assert {(line["trace_id"], line["span_id"]) for line in traced} == {tuple(trace["traceparent"].split("-")[1:3])}
    assert "trace_id" not in alone
    assert traced[1]["of"] == {"id": f"mst_{ana['id']}_***"}


def test_what_a_browser_did_was_done_by_the_token_it_signed_in_with(project: Path, tmp_path: Path):
    """Not by its cookie, which nobody was given: changes, refusals, coming and going are all the token's."""
    log, token = tmp_path / "log", made(project, "ana")
    with serving(project, "--require-auth", log=log) as server, server.client() as client:
        client.post("/v1/signin", json={"token": token["token"]})
        assert client.post("/v1/sessions", json={"name": "x"}).status_code == 201
        assert client.post("/v1/cleanup", json={}).status_code == 403
        client.post("/v1/signout")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    told = [(line["event"], line["by"]) for line in lines]
    assert told == [(event, token["id"]) for event in ("signed_in", "audit", "refused", "signed_out")]


def test_who_changed_what_is_written_down_without_what_was_said(project: Path, tmp_path: Path):
    """Every change, every sign-in and everybody who was refused is a line; no content, no token is in any."""
    log, token, eyes = tmp_path / "log", made(project, "ana"), made(project, "bob", "--read-only")
    with serving(project, "--require-auth", log=log) as server:
        with server.client(token["token"]) as client:
            here = client.post("/v1/sessions", json={"name": "secret-plan"}).headers["location"]
            client.post(f"{here}/messages", json={"role": "user", "content": "the launch code"})
            client.post(f"{here}/messages", json={"role": "boss", "content": "the launch code"})
            for _ in range(2):
                asked = {"role": "user", "content": "the launch code"}
                client.post("/v1/sessions/latest/messages", json=asked, headers={"idempotency-key": "k"})
            client.get(here)
        with server.client("wrong") as client:
            client.get(here)
            client.post("/v1/signin", json={"token": "wrong"})
        with server.client(eyes["token"]) as client:
            client.post(f"{here}/end")
        with server.client() as client:
            client.post("/v1/signin", json={"token": eyes["token"]})
            client.post("/v1/signout")
        with server.client(made(project, "eva", "--admin")["token"]) as client:
            client.delete(f"/v1/tokens/{token['id']}")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    *audit, revoked = [line for line in lines if line["event"] == "audit"]
    assert (revoked["user"], revoked["of"]) == ("eva", {"id": token["id"]})
    assert [(one["user"], one["by"], one["did"], one["status"]) for one in audit] == [
        ("ana", token["id"], "POST /v1/sessions", 201),
        *[("ana", token["id"], "POST /v1/sessions/{ref}/messages", 201)] * 3,
    ]
    session = {"ref": here.rsplit("/", 1)[1]}  # whatever they called it; a repeat did nothing
    assert [one.get("made") for one in audit] == [session["ref"], None, None, None]
    assert [(one["of"], one.get("again")) for one in audit[1:]] == [
        (session, None), (session, None), ({"ref": "latest"}, True)
    ]  # fmt: skip
    refused = [line for line in lines if line["event"] == "refused"]
    assert [(one["did"], one["status"], one.get("user"), one.get("by")) for one in refused] == [
        ("GET /v1/sessions/{ref}", 401, None, None),
        ("POST /v1/signin", 401, None, None),
        ("POST /v1/sessions/{ref}/end", 403, "bob", eyes["id"]),
    ]
    signed = [(line["event"], line["user"], line["by"]) for line in lines if line["event"].startswith("signed")]
    assert signed == [("signed_in", "bob", eyes["id"]), ("signed_out", "bob", eyes["id"])]
    assert not re.search("launch|mst_", log.read_text())


@pytest.mark.parametrize(
    "options",
    [
        ("--behind-proxy",),
        ("--allow-origin", SITE),
        ("--require-auth", "--allow-origin", "*"),
        ("--tls-cert", "x", "--tls-key", "y"),
    ],
)
def test_what_would_let_others_in_is_refused(project: Path, options: tuple[str, ...]):
    """One line, and what to do next."""
    done = run(project, "serve", "--port", "0", *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_more_may_follow_than_a_shell_gives_files(project: Path):
    """A program is given few open files by default, and may take more: a thousand who follow must not use them up."""
    started(project)
    words = ["sh", "-c", 'ulimit -S -n 64 && exec "$0" "$@"', MAESTRO, "--project", str(project)]
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen([*words, "serve", "--json", "--port", "0"], stdout=PIPE))
        stack.callback(process.terminate)
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["url"].rsplit(":", 1)[1])
        for _ in range(100):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            line.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert line.recv(12) == b"HTTP/1.1 200"
