"""How often somebody may ask: with a clock that stands still unless it is moved, so that no machine is too slow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from maestro_state.serve import authentication, build_app, rate_limit
from maestro_state.serve.options import Options
from tests.integration.test_serve_guards import made

pytestmark = pytest.mark.usefixtures("served")

WRONG = "mst_aaaaaa_" + "a" * 43
Asking = Callable[..., httpx2.AsyncClient]


class Clock:
    """Says the seconds it is told."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that allowances go by; few requests are allowed at once."""
    found = Clock()
    monkeypatch.setattr(rate_limit, "monotonic", found)
    monkeypatch.setattr(authentication, "BURST", 20.0)
    monkeypatch.setattr(authentication, "RATE", 5.0)
    monkeypatch.setattr(authentication, "FAILING", (0.2, 20.0))
    return found


@asynccontextmanager
async def served_here(project: Path) -> AsyncIterator[Asking]:
    """Serve a project in this process; return what makes clients, each from an address of its own."""
    app = build_app(Options(require_auth=True, web=False, mcp=False), project=project)
    await app.open()

    def asking(token: str | None = None, address: str = "127.0.0.1") -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app=app, client=(address, 1))
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)

    yield asking
    await app.close()


async def statuses(client: httpx2.AsyncClient, count: int) -> list[int]:
    """Ask so often; return what it was answered with."""
    return [(await client.get("/v1/tools")).status_code for _ in range(count)]


async def test_too_many_requests_of_a_token_are_told_to_wait(project: Path, clock: Clock):
    """So many at once are answered, then 429 with when to come back; another token is served, and time heals."""
    ana, bob = made(project, "ana")["token"], made(project, "bob")["token"]
    async with served_here(project) as asking, asking(ana) as client, asking(bob) as other:
        assert await statuses(client, 22) == [200] * 20 + [429] * 2
        refused = await client.get("/v1/tools")
        assert (refused.headers["retry-after"], refused.json()["error"]["code"]) == ("1", "too_many_requests")
        assert await statuses(other, 1) == [200]
        clock.now += 1
        assert await statuses(client, 6) == [200] * 5 + [429]


async def test_a_cookie_spends_what_its_token_may(project: Path, clock: Clock):
    """Who signs in again and again may not ask more often for it."""
    token = made(project, "ana")["token"]
    async with served_here(project) as asking, asking(token) as client, asking() as browser:
        assert await statuses(client, 15) == [200] * 15
        signed = await browser.post("/v1/signin", json={"token": token})
        browser.headers["cookie"] = signed.headers["set-cookie"].partition(";")[0]
        assert await statuses(browser, 6) == [200] * 5 + [429]
        clock.now += 1
        assert await statuses(browser, 1) == [200]


async def test_wrong_tokens_become_slow(project: Path, clock: Clock):
    """After some, whoever guesses is told to wait; a right token is let in all the same, and so is another address."""
    token, most = made(project, "ana")["token"], int(authentication.FAILING[1])
    async with served_here(project) as asking:
        async with asking(WRONG) as client:
            assert await statuses(client, most + 2) == [401] * most + [429] * 2
        async with asking() as client:
            signing = await client.post("/v1/signin", json={"token": "nonsense"})
            assert (signing.status_code, int(signing.headers["retry-after"]) >= 1) == (429, True)
            assert await statuses(client, 3) == [401] * 3  # who sends none guesses nothing
        async with asking(token) as client, asking(WRONG, "192.0.2.7") as elsewhere:
            assert await statuses(client, 1) == [200]
            assert await statuses(elsewhere, 1) == [401]
        clock.now += 1 / authentication.FAILING[0]
        async with asking(WRONG) as client:
            assert await statuses(client, 2) == [401, 429]
