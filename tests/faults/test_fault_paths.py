"""Ten thousand attempts to get out of `.maestro`: hostile names for everything that takes one, and links swapped in
while archives are written, read, exported and removed. Everything aims at canaries beside the project.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from maestro_state import Maestro
from maestro_state.errors import MaestroError
from maestro_state.fs.handles import Folder
from maestro_state.fs.kernel import exchange
from maestro_state.local.project import Project
from maestro_state.mirror.home import STAGING, Home, team_folder
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.retention import clean
from maestro_state.mirror.verify import verify
from tests.support.generations import SESSION_ID, contents, write_generation
from tests.support.stored import filler

SECRET = "the canary's song"
ATTEMPTS = 10_000
NOW = 1_800_000_000_000
#: How often folders turn into links while everything runs.
SWAPS = 600


@pytest.fixture
def project() -> Iterator[Path]:
    """Return a project three folders deep in a place of its own, so that climbing out stays in that place."""
    from maestro_state.local.embedded import stop

    place = Path(tempfile.mkdtemp(prefix="m-"))
    folder = place / "a" / "b"
    folder.mkdir(parents=True)
    yield folder
    stop(folder)
    shutil.rmtree(place)


@pytest.fixture
def canaries(project: Path) -> Path:
    """Return a folder beside the project that looks like an archive, and like everything else names may lead to."""
    folder = project.parent / "canary"
    for path, content in contents(1).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.replace(b"generation", SECRET.encode()))
    for path in ("secret", "secret.txt", "runs/0001/output.txt", "runs/0001/prompt.txt", "exports/x.md", "active"):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(SECRET)
    return folder


def state_of(folder: Path) -> dict[str, str]:
    """Return everything in a folder with its digest and mode."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"
        found[str(path.relative_to(folder))] = f"{status.st_mode:o} {status.st_nlink} {status.st_mtime_ns} {digest}"
    return found


def hostile_names(canaries: Path) -> list[str]:
    """Return more than two hundred names, each of which would reach a canary or nothing at all."""
    aims = ["canary", "canary/secret", "canary/secret.txt", "canary/session.json", "canary/runs/0001"]
    climbs = ["../", "../../", "../../../", "../../../../", "./../../../", "x/../../../../", "..//..//..//",
              "..\\..\\..\\", "%2e%2e/%2e%2e/%2e%2e/", "..%2f..%2f..%2f", "\u2025/\u2025/",
              "．．/．．/．．/"]  # fmt: skip
    names = [f"{climb}{aim}{end}" for climb in climbs for aim in aims for end in ("", "/", "\0", "\n")]
    names += [f"{canaries}{end}" for end in ("", "/", "/secret", "/session.json", "/runs/0001/output.txt", "\0")]
    names += ["link--abcdef", "file--abcdef", "link--abcdef/secret", "link--abcdef/../secret", "canary--abcdef\0"]
    names += ["..", ".", "", "../..", "a" * 300, "a" * 5000, "é--abcdef", "ａ--abcdef", "a:b--abcdef", "{a}--abcdef",
              "a--ABCDEF", "a--abcdef ", " a--abcdef", "a--abcdef\n", "-a--abcdef", "\udcff--abcdef",
              "\x1b[2J"]  # fmt: skip
    return names


def put_links(project: Path, canaries: Path) -> None:
    """Put links in the places of sessions: names that are allowed, and lead out."""
    sessions = project / ".maestro/sessions"
    for name, target in (("link--abcdef", canaries), ("file--abcdef", canaries / "session.json")):
        if not os.path.lexists(sessions / name):
            os.symlink(target, sessions / name)


def verbs_on_disk(project: Path) -> list[Callable[[str], object]]:
    """Return what takes a name and touches the disk: homes and archived sessions."""
    home = Home.of_project(Project(str(project)))
    archived = ArchivedSession(home, SESSION_ID)

    def locked(name: str) -> None:
        with home.locked(name):
            pass

    return [
        home.open_session,
        home.remove,
        home.move_to_trash,
        locked,
        lambda name: home.put_export(name, "x.md", b"over"),
        lambda name: home.put_export(SESSION_ID, name, b"over") if "/" in name or "\0" in name else None,
        lambda name: ArchivedSession(home, name).contents(),
        lambda name: list(ArchivedSession(home, name).events()),
        lambda name: verify(home, name),
        archived.prompt,
        lambda name: b"".join(archived.output(name)),
        archived.sent_context,
        lambda name: [team_folder(name)].index(os.path.basename(team_folder(name))),
        layout.item_path,
        layout.blob_path,
        lambda name: layout.run_path(name, "output.txt"),
    ]


def verbs_in_folder(project: Path) -> list[Callable[[str], object]]:
    """Return what every write and read ends in, given the name without any check before it."""
    home = Home.of_project(Project(str(project)))

    def inside(act: Callable[[Folder, str], object]) -> Callable[[str], object]:
        def on(name: str) -> object:
            with home.sessions() as folder:
                return act(folder, name)

        return on

    return [
        inside(lambda folder, name: folder.read(name, limit=1 << 20)),
        inside(lambda folder, name: folder.child(name).close()),
        inside(lambda folder, name: folder.child(name, create=True).close()),
        inside(lambda folder, name: folder.replace(name, b"over", durable=False)),
        inside(lambda folder, name: folder.remove(name)),
        inside(lambda folder, name: folder.remove_tree(name)),
        inside(lambda folder, name: os.close(folder.open_own(name)[0])),
        inside(lambda folder, name: os.close(folder.open_again(name)[0])),
        inside(lambda folder, name: folder.move(name, "moved")),
        inside(lambda folder, name: folder.move("moved", name)),
        inside(lambda folder, name: folder.link(name, folder, "index.json")),
    ]


def verbs_of_maestro(maestro: Maestro) -> list[Callable[[str], object]]:
    """Return what the commands call with what a user or a stranger's file says."""
    return [
        maestro.sessions.read,
        maestro.sessions.status,
        maestro.sessions.switch,
        maestro.sessions.end,
        maestro.sessions.delete,
        lambda name: maestro.sessions.delete(name, trash=True),
        lambda name: maestro.sessions.fork(name, "forked"),
        maestro.archive.checkpoint,
        maestro.archive.verify,
        maestro.archive.export,
        lambda name: maestro.messages.since(None, name),
        maestro.runs.list,
        lambda name: maestro.runs.read(name, "kept"),
        lambda name: maestro.runs.output(name, "kept"),
        lambda name: maestro.context.show(name, "kept"),
        lambda name: maestro.context.remove(name),
        lambda name: maestro.context.add(name) if "/" in name else None,
        maestro.work.read,
        maestro.work.checkpoint,
        maestro.discussions.show,
    ]


def attempt(verb: Callable[[str], object], name: str, allowed: tuple[type[Exception], ...]) -> str:
    """Try one verb on one name and tell how it went; nothing of a canary may come back."""
    outcome = "done"
    try:
        found = verb(name)
    except allowed as error:
        found, outcome = str(error), type(error).__name__
    if isinstance(found, Folder):
        with found:
            assert os.path.basename(found.path) in (SESSION_ID, name)
            found = found.names()
    assert SECRET not in repr(found), (verb, name)
    return outcome


def test_no_name_leads_out(real, project: Path, canaries: Path):
    """Of ten thousand attempts with hostile names none reads, writes, moves or removes anything outside `.maestro`."""
    before = state_of(canaries)
    names, attempts = hostile_names(canaries), 0
    assert len(set(names)) >= 200
    with real.open() as maestro:
        fill = filler(real, maestro.sessions.start("kept").id)
        fill.item(b"inside")
        fill.run(b"inside")
        maestro.sessions.end()
        maestro.sessions.start("open")
        for verb in verbs_of_maestro(maestro):
            for name in names:
                put_links(project, canaries)
                attempt(verb, name, (MaestroError,))
                attempts += 1
        kept = maestro.archive.verify("kept")
    assert kept.ok
    write_generation(project, 1)
    for verb in verbs_on_disk(project):
        for name in names:
            put_links(project, canaries)
            attempt(verb, name, (MaestroError,))
            attempts += 1
    for verb in verbs_in_folder(project):
        for name in names:
            put_links(project, canaries)
            attempt(verb, name, (MaestroError, OSError))
            attempts += 1

    assert attempts >= ATTEMPTS
    assert state_of(canaries) == before
    assert sorted(os.listdir(canaries.parent)) == ["b", "canary"]
    assert verify(Home.of_project(Project(str(project))), SESSION_ID).ok


def test_the_same_names_lead_plain_open_out(project: Path, canaries: Path):
    """Control: joined to the folder and opened as they are, these names read the canaries and write over one."""
    sessions = project / ".maestro/sessions"
    sessions.mkdir(parents=True)
    put_links(project, canaries)
    escaped = 0
    for name in hostile_names(canaries):
        with suppress(OSError, ValueError):
            escaped += SECRET in (sessions / name).read_text()
    assert escaped >= 10
    (sessions / "link--abcdef/secret").write_text("over")
    assert (canaries / "secret").read_text() == "over"


class Swapper:
    """Swaps folders of an archive for links to the canaries and back, as fast as it can."""

    def __init__(self, project: Path, canaries: Path) -> None:
        sessions = project / ".maestro/sessions"
        self._places = [
            (sessions, SESSION_ID), (sessions, STAGING), (sessions / SESSION_ID, "runs"),
            (sessions / SESSION_ID, "exports"), (sessions / SESSION_ID, "context"),
            (project / ".maestro", "trash"), (project / ".maestro", "sessions"),
        ]  # fmt: skip
        self._links = project / "links"
        self._links.mkdir()
        self._canaries = canaries
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._swap)
        self.swaps = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _swap(self) -> None:
        """Put a link in a folder's place in one step, leave it for a moment, and put the folder back."""
        number = 0
        while not self._stop.is_set():
            number += 1
            above, name = self._places[number % len(self._places)]
            link = self._links / str(number)
            link.symlink_to(self._canaries)
            with suppress(OSError):
                folder = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                links = os.open(self._links, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    if exchange(folder, name, links, link.name):
                        self._stop.wait(0.0005)
                        exchange(folder, name, links, link.name)
                        self.swaps += 1
                        self._stop.wait(0.0005)
                finally:
                    os.close(folder)
                    os.close(links)


def met_both(outcomes: Counter[tuple[int, str]], verbs: list[Callable[[str], object]]) -> bool:
    """Tell whether every verb has worked at least once and been refused at least once."""
    return all(outcomes[number, "done"] and outcomes[number, "WorkFailed"] for number in range(len(verbs)))


def test_links_swapped_in_lead_nowhere(project: Path, canaries: Path):
    """While folders turn into links and back, flushes, reads, exports, cleanups and removals never leave `.maestro`."""
    home = Home.of_project(Project(str(project)))
    before = state_of(canaries)
    write_generation(project, 1)
    (project / ".maestro/trash").mkdir()
    archived = ArchivedSession(home, SESSION_ID)
    verbs: list[Callable[[str], object]] = [
        lambda name: write_generation(project, 1),
        lambda name: write_generation(project, 2),
        lambda name: archived.contents(),
        lambda name: b"".join(archived.output("0001")),
        lambda name: archived.prompt("0001"),
        lambda name: verify(home, name),
        lambda name: home.put_export(name, "x.md", b"over"),
        lambda name: clean(home, set(), now_ms=NOW, days=0, dry_run=False),
        lambda name: home.sweep_leftovers(),
        home.move_to_trash,
        home.remove,
    ]
    plainly, led_out, outcomes = project / ".maestro/sessions" / SESSION_ID / "secret", 0, Counter[tuple[int, str]]()
    with Swapper(project, canaries) as swapper:
        ends_at = time.monotonic() + 120
        while not (swapper.swaps >= SWAPS and led_out and met_both(outcomes, verbs)) and time.monotonic() < ends_at:
            for number, verb in enumerate(verbs):
                outcomes[number, attempt(verb, SESSION_ID, (MaestroError,))] += 1
                with suppress(OSError):
                    led_out += SECRET in plainly.read_text()
    print(swapper.swaps, led_out, sorted(outcomes.items()))

    assert met_both(outcomes, verbs), "every verb must have met the folder and the link"
    assert swapper.swaps >= SWAPS
    assert led_out > 0, "control: the same swaps lead a plain read out"
    assert state_of(canaries) == before
    assert sorted(os.listdir(canaries.parent)) == ["b", "canary"]
    home.sweep_leftovers()
    assert os.listdir(project / ".maestro/sessions" / STAGING) == []
    write_generation(project, 2)
    assert verify(home, SESSION_ID).ok
