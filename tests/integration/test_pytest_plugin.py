"""The fixtures that Maestro gives to other people's tests: a session on a private server, gone with the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import wait_until

TESTS = """
import os, pytest
from maestro_state import Maestro, record

@pytest.mark.parametrize("number", range(3))
def test_a_session(maestro, maestro_session, maestro_project, number):
    assert maestro_session.slug.startswith("test-a-session")
    assert not [name for name in os.environ if name.startswith("MAESTRO_")]
    maestro.messages.add("user", f"hello {number}")
    with Maestro(maestro_project) as other:
        assert [one.content for one in other.messages.last()] == [f"hello {number}"]
        assert len(other.sessions.list()) == 1
    with open(os.environ["PLACES"], "a") as places:
        print(maestro_project, file=places)

def test_recorded(maestro, maestro_record):
    with maestro_record as r:
        r.user("hello")
        r.assistant("hi", cost=0.5)
    assert [one.content for one in maestro.messages.last()] == ["hello", "hi"]
    assert maestro.usage().total.cost == 0.5

async def test_awaited(async_maestro, maestro_session):
    async with async_maestro as maestro:
        await maestro.messages.add("user", "hello")
        assert (await maestro.sessions.resolve()) == maestro_session.id

async def test_awaited_and_left_open(async_maestro, maestro_session):
    await async_maestro.messages.add("user", "hello")
"""


def pytest_in(folder: Path, *words: str) -> list[str]:
    """Return a command that runs tests as anybody would who has installed Maestro."""
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *words]


def environment(tmp_path: Path) -> dict[str, str]:
    """Return one in which something else is set, as it may be at a developer's."""
    return os.environ | {"MAESTRO_REDIS_URL": "redis://127.0.0.1:1", "PLACES": str(tmp_path / "places")}


def test_tests_have_sessions_of_their_own(tmp_path):
    """Also several at once; afterwards their servers and folders are gone."""
    (tmp_path / "test_mine.py").write_text(TESTS)
    command = pytest_in(tmp_path, "-n", "2")
    done = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=300)
    assert "6 passed" in done.stdout, done.stdout + done.stderr
    places = (tmp_path / "places").read_text().split()
    assert len(set(places)) == 3
    assert not [place for place in places if Path(place).exists()]
    for place in places:
        assert not _served(place)


def _served(place: str) -> list[str]:
    """Return the processes that serve a folder."""
    found = []
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place.encode() in words.read_bytes():
                found.append(words.parent.name)
        except OSError:
            continue
    return found


def test_a_killed_pytest_leaves_nothing(tmp_path):
    """Somebody else stops its server and removes its folder."""
    (tmp_path / "test_mine.py").write_text(
        "import sys, time\ndef test(maestro_project, capsys):\n"
        "    with capsys.disabled(): print(maestro_project, flush=True)\n    time.sleep(600)\n"
    )
    command = pytest_in(tmp_path)
    with subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as tests:
        place = tests.stdout.readline().strip()
        assert Path(place).is_dir(), place
        assert _served(place)  # the control: there is something to leave
        tests.send_signal(signal.SIGKILL)
    wait_until(lambda: not Path(place).exists() and not _served(place), f"{place} is left behind")


def test_those_who_do_not_use_it_pay_nothing(tmp_path):
    """pytest's start imports nothing but the fixtures' own module."""
    (tmp_path / "test_mine.py").write_text(
        "import sys\ndef test():\n"
        "    assert [name for name in sys.modules if name.startswith('maestro_')]"
        " == ['maestro_state', 'maestro_state.pytest_plugin']\n"
    )
    done = subprocess.run(pytest_in(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "1 passed" in done.stdout, done.stdout
