"""Who is let in: every refusal, each beside the same request that is let in."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from inspect import unwrap
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.serve.app import _with_origin
from tests.support.cli_runs import MAESTRO
from tests.support.served import Served, serving, started

pytestmark = pytest.mark.usefixtures("served")


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run([MAESTRO, "--project", str(project), *words], capture_output=True, text=True)


def made(project: Path, user: str, *options: str) -> dict[str, str]:
    """Make a token by the command."""
    done = run(project, "token", "add", user, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def locked(project: Path) -> Iterator[Served]:
    """Serve to those who have a token."""
    with serving(project, "--require-auth") as running:
        yield running


def test_other_names_and_sites_are_refused(project: Path):
    """A name that was made to lead here, and pages of other sites, get nothing and change nothing."""
    session_id = started(project)
    path, body = f"/v1/sessions/{session_id}/messages", {"role": "user", "content": "x"}
    with serving(project, "--allow-host", "maestro.example") as server, server.client() as client:
        own = f"127.0.0.1:{server.port}"
        names = ["evil.example", "localhost.evil", "127.0.0.1.evil", f"evil@{own}", "", "maestro.example.evil"]
        assert {client.get(path, headers={"host": name}).status_code for name in names} == {421}
        allowed = ["localhost", "LOCALHOST:1", "[::1]:80", own, "maestro.example", "maestro.example."]
        assert {client.get(path, headers={"host": name}).status_code for name in allowed} == {200}
        sites = ["null", "http://evil.example", "http://localhost.evil", f"http://{own}.evil", "http://127.0.0.1:1"]
        refused = [client.post(path, json=body, headers={"origin": site}) for site in sites]
        refused += [
            client.post(path, json=body, headers={"sec-fetch-site": kind}) for kind in ("cross-site", "same-site")
        ]
        refused.append(client.get(path, headers={"sec-fetch-site": "cross-site"}))
        assert {one.status_code for one in refused} == {403}
        assert not any("access-control-allow-origin" in one.headers for one in refused)
        assert client.options(path, headers={"origin": f"http://{own}"}).status_code == 405
        assert client.get(path).json() == {"messages": []}
        let_in = client.post(path, json=body, headers={"origin": f"http://{own}", "sec-fetch-site": "same-origin"})
        assert let_in.status_code == 201


def test_who_follows_another_sites_link_is_shown_a_page(project: Path):
    """Refused as all that comes from elsewhere, with a link of our own: what is linked to can be read by people."""
    session_id = started(project)
    path = f"/sessions/{session_id}"
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    with serving(project) as server, server.client(**link) as client:
        shown = client.get(path)
        assert (shown.status_code, shown.headers["content-type"]) == (403, "text/html; charset=utf-8")
        assert "frame-ancestors 'none'" in shown.headers["content-security-policy"]
        assert f'href="{path}"' in shown.text
        assert 'role="log"' not in shown.text
        odd = client.get("/sessions/%22%3E%3Cscript%3E")
        assert "<script>" not in odd.text
        assert 'href="/sessions/%22%3E%3Cscript%3E"' in odd.text
        others = [
            client.get(f"/v1{path}"), client.post("/v1/sessions", json={"name": "x"}),
            client.get(path, headers={"sec-fetch-dest": "iframe"}), client.get(path, headers={"origin": "null"}),
            client.get(path, headers={"sec-fetch-mode": "no-cors"}),
        ]  # fmt: skip
        assert {(one.status_code, one.json()["error"]["code"]) for one in others} == {(403, "other_site")}
    with serving(project, "--no-web") as server, server.client(**link) as client:
        assert client.get(path).json()["error"]["code"] == "other_site"


def test_a_header_that_decides_is_there_once(project: Path):
    """Whichever of two would count here: what is in front may have looked at the other one."""
    token, other = made(project, "ana")["token"], made(project, "bob")["token"]
    own = {"authorization": f"Bearer {token}", "content-type": "application/json", "sec-fetch-site": "same-origin"}
    own |= {"idempotency-key": "k", "if-match": "*", "last-event-id": "1-1", "content-encoding": "identity"}
    with serving(project, "--require-auth", "--no-web") as server, server.client() as client:
        own["origin"] = server.url
        two = {"authorization": f"Bearer {other}", "content-type": "text/plain", "sec-fetch-site": "cross-site"}
        two |= {"origin": "http://evil.example", "idempotency-key": "l", "if-match": '"1"', "last-event-id": "2-1"}
        two["content-encoding"] = "gzip"
        for name, second in two.items():
            for pair in ([(name, second)], [(name, own[name])]):
                headers = [*own.items(), *pair]
                for ordered in (headers, headers[::-1]):
                    refused = client.post("/v1/sessions", content=b'{"name": "x"}', headers=ordered)
                    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "usage"), name
        assert client.get("/v1/sessions", headers=own).json()["sessions"] == []
        assert client.post("/v1/sessions", content=b'{"name": "x"}', headers=own).status_code == 201


def test_nobody_gets_in_without_a_token(project: Path, locked: Served):
    """Health alone is for everybody; tokens that are wrong, over or revoked count as none."""
    token = made(project, "ana")["token"]
    wrong = [None, "x", "mst_aaaaaa_" + "a" * 43, token[:-1] + ("a" if token[-1] != "a" else "b"), token + "a"]
    for one in wrong:
        with locked.client(one) as client:
            answers = [
                client.get("/v1/sessions"),
                client.post("/v1/sessions", json={"name": "x"}),
                client.get("/openapi.json"),
            ]
            assert {answer.status_code for answer in answers} == {401}
            assert answers[0].headers["www-authenticate"].startswith("Bearer")
            assert client.get("/v1/health").status_code == 200
    with locked.client() as client:
        assert client.get("/v1/sessions", params={"token": token}).status_code == 401
        assert client.get("/v1/sessions", headers={"authorization": f"Basic {token}"}).status_code == 401
    with locked.client(token) as client:
        assert client.get("/v1/sessions").status_code == 200


def test_what_a_token_may(project: Path, locked: Served):
    """It changes in its user's name; one that only reads changes nothing; a revoked one is none."""
    ana, bob = made(project, "ana"), made(project, "bob", "--read-only", "--days", "3")
    session_id = started(project)
    path, body = f"/v1/sessions/{session_id}", {"role": "user", "content": "hello"}
    with locked.client(ana["token"]) as client:
        assert client.post(f"{path}/messages", json=body).json()["user"] == "ana"
        assert client.get(f"{path}/messages").json()["messages"][0]["user"] == "ana"
        assert client.delete(path).status_code == 403
        mine = client.post("/v1/sessions", json={"name": "mine"}).headers["location"]
        assert client.delete(mine).status_code == 200
    with locked.client(bob["token"]) as client:
        assert client.get(path).status_code == 200
        assert client.post(f"{path}/messages", json=body).status_code == 403
    listed = json.loads(run(project, "token", "list", "--json").stdout)["tokens"]
    assert [(row["user"], row["role"], "last_used_at" in row) for row in listed] == [
        ("ana", "write", True),
        ("bob", "read", True),
    ]
    assert run(project, "token", "revoke", bob["id"]).returncode == 0
    assert run(project, "token", "revoke", bob["id"]).returncode == 3
    with locked.client(bob["token"]) as client:
        assert client.get(path).status_code == 401


def test_only_digests_are_stored(project: Path):
    """Neither the server nor a file has what is needed to get in."""
    secret = made(project, "ana")["token"].rsplit("_", 1)[1]
    with Maestro(project) as maestro:
        stored = maestro.server.connection.call("HGETALL", *maestro.server.terms.keys.token)
    assert stored
    assert secret.encode() not in b"".join(stored)
    files = [path for path in (project / ".maestro").rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_a_browser_signs_in_with_a_cookie_that_no_script_reads(project: Path, locked: Served):
    """The token is exchanged once; the cookie is of this site alone, and goes when the token does."""
    ana = made(project, "ana")
    with locked.client() as client:
        assert client.post("/v1/signin", json={"token": "nonsense"}).status_code == 401
        signed = client.post("/v1/signin", json={"token": ana["token"]})
        cookie = signed.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
        assert ana["token"] not in cookie
        assert client.get("/v1/sessions").status_code == 200
        crossing = {"origin": "http://evil.example"}
        assert client.post("/v1/sessions", json={"name": "x"}, headers=crossing).status_code == 403
        again = client.post("/v1/signin", json={"token": cookie.split("=", 1)[1].split(";")[0]})
        with locked.client(cookie=again.headers["set-cookie"].split(";")[0]) as other:
            assert other.get("/v1/sessions").status_code == 200
            run(project, "token", "revoke", ana["id"])
            assert other.get("/v1/sessions").status_code == 401, "a cookie that was got with a cookie goes too"
        assert client.get("/v1/sessions").status_code == 401


def test_a_browser_is_signed_in_at_two_servers_at_once(project: Path, locked: Served):
    """Browsers keep one jar for all ports of a machine: signing in at one server signs nobody out of another."""
    token = made(project, "ana")["token"]
    with serving(project, "--require-auth", "--no-web") as other, locked.client() as browser:
        for url in (locked.url, other.url):
            assert browser.post(f"{url}/v1/signin", json={"token": token}).status_code == 200
        assert [browser.get(f"{url}/v1/sessions").status_code for url in (locked.url, other.url)] == [200, 200]
        assert browser.post(f"{other.url}/v1/signout").status_code == 200
        assert [browser.get(f"{url}/v1/sessions").status_code for url in (locked.url, other.url)] == [200, 401]


def test_read_only_changes_nothing(project: Path):
    """What only reads is served, nothing else."""
    session_id = started(project)
    with serving(project, "--read-only") as server, server.client() as client:
        assert client.get(f"/v1/sessions/{session_id}").status_code == 200
        answer = client.post(f"/v1/sessions/{session_id}/end")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read_only")


@pytest.mark.parametrize(
    "options", [("--host", "0.0.0.0"), ("--host", "0.0.0.0", "--require-auth"), ("--tls-cert", "x")]
)
def test_others_are_not_served_without_tokens_and_tls(project: Path, options: tuple[str, ...]):
    """It does not start, and says in one line what to add."""
    done = run(project, "serve", "--port", "0", *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "--" in done.stderr


def test_a_port_that_is_taken_is_said(project: Path):
    """The second one exits with one line."""
    with serving(project) as server:
        done = run(project, "serve", "--port", str(server.port))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_what_keeps_it_from_starting_is_said(project: Path, monkeypatch: pytest.MonkeyPatch):
    """A setting that is wrong, in the words and with the exit code of every other command."""
    monkeypatch.setenv("MAESTRO_TTL_SECONDS", "soon")
    other, served = run(project, "session", "list"), run(project, "serve", "--port", "0")
    assert "MAESTRO_TTL_SECONDS" in served.stderr
    assert (served.returncode, served.stdout, served.stderr) == (2, "", other.stderr)


def test_a_stream_to_a_page_of_another_site_can_be_cut():
    """What adds the site's name to an answer leaves the line behind it to be found."""

    class Line:
        async def send(self, event: object) -> None:
            raise NotImplementedError

    line = Line()
    assert unwrap(_with_origin(line.send, "https://dashboard.example")).__self__ is line
