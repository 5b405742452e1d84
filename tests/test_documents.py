"""Documents that people write are held to the code: paths, commands, events, README's demo, sizes."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from maestro_state import AsyncMaestro, Maestro
from tools import reference, site
from tools.shapes import EVENTS, SHAPES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference"]
#: A path of the repository, as a page names it.
_PATH = re.compile(r"`((?:maestro_state|workers|cli|tests|tools|benchmarks|docs|examples)/[\w./-]+)`")
#: What users' projects have, not this repository.
_USERS = ("docs/sessions/", "docs/maestro/")


def _paths(text: str) -> set[str]:
    return {one for one in _PATH.findall(text) if not one.startswith(_USERS)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_page_names_exists(page: Path):
    """Nobody is sent to a file that has moved."""
    assert not [one for one in _paths(page.read_text(encoding="utf-8")) if not (ROOT / one).exists()]


def test_the_map_is_a_map():
    """The test above would find a wrong path: there are paths to be found."""
    assert len(_paths((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))) > 30


def test_the_map_has_the_rooms_of_the_library_from_the_top_down():
    """Every room is on the map, in the order that the import rules keep to."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(rule["layers"] for rule in rules if rule.get("exhaustive"))
    level = {room.strip(): at for at, layer in enumerate(layers) for room in layer.split("|")}
    shown = re.search(r"^maestro_state/\n(.*?)^workers/", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.M | re.S)
    assert shown
    rooms = re.findall(r"^  (\w+)/ ", shown[1], re.M)
    *_, last = shown[1].strip().splitlines()
    modules = set(re.findall(r"\w+(?=[,\n ]|$)", last.partition("(")[0]))
    assert sorted(rooms, key=level.__getitem__) == rooms
    assert {*rooms} | modules == {*level}


@pytest.mark.parametrize(("page", "most"), [("README.md", 80), ("ARCHITECTURE.md", 200)])
def test_the_first_pages_stay_short(page: str, most: int):
    """What everybody reads first is read to its end."""
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= most


def test_the_changelog_says_nothing_twice():
    """A merge leaves the lines of two branches beside each other: they begin alike."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    begun = [line.strip()[:40] for line in lines if line]
    assert not [line for line in begun if begun.count(line) > 1]


def test_every_event_has_its_meaning():
    """A script that appends a new type of event has to say what it means."""
    assert set(reference.stored_events()) <= set(EVENTS)


def test_every_document_is_described():
    """A command that takes --json has its row, and no row is left of one that is gone."""
    takes = {words.removeprefix("maestro ") for words, command in reference.commands()
             if any("--json" in one.opts for one in command.params)}  # fmt: skip
    assert takes == set(SHAPES)


def _plain(text: str) -> list[str]:
    """Return lines without what differs from run to run."""
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"fix-login--[0-9a-z]{6}", "fix-login--ID", text)
    text = re.sub(r"\d{13}-\d+", "MESSAGE", text)
    text = re.sub(r"\d+\.\d s", "SECONDS", text)
    text = re.sub(r"(TIME |by |attached  )[\w.-]+", r"\1USER", text)
    text = re.sub(r"@.*?pid \d+", "@HOST", text)
    text = re.sub(r"Now yours: \S*maestro", "Now yours: maestro", text)
    return [line.rstrip() for line in text.splitlines()]


def test_the_readme_shows_what_the_demo_prints():
    """Each line of README's demo is one of the real demo, in its order; `…` is for what was left out."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = _plain(re.search(r"```text\n(Three terminals.*?)```", text, re.DOTALL).group(1))
    done = subprocess.run([sys.executable, "-m", "maestro_cli.demo"], capture_output=True, text=True, check=True)
    printed = iter(_plain(done.stdout))
    for line in filter(None, shown):
        start, cut, _ = line.partition("…")
        assert any(one.startswith(start) if cut else one == line for one in printed), line


_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _anchors(page: Path) -> set[str]:
    """Return the places of a page that a link can lead to."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "examples" / "README.md", *(ROOT / "docs" / "reference").glob("*.md")],
    ids=lambda page: page.name,
)
def test_links_lead_somewhere(page: Path):
    """Every link inside the repository has its file, and its heading there."""
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_links_lead_to_pages_of_the_site():
    """A link that is right in the repository is turned into one that is right on the site."""
    found = site.LINK.search("[x](../SECURITY.md#reporting)")
    assert site.link(found, "docs/guide.md", "guide.md") == "](security.md#reporting)"
    found = site.LINK.search("[x](docs/adr/0001-own-client-over-hiredis.md)")
    assert site.link(found, "ARCHITECTURE.md", "architecture.md") == "](adr/0001-own-client-over-hiredis.md)"
    found = site.LINK.search("[x](session.py)")
    assert site.link(found, "examples/README.md", "examples.md") == "](examples.md#sessionpy)"


def test_what_a_page_of_the_site_fetches_is_found():
    """Scripts, styles and pictures of another host are; links that people follow are not."""
    assert site.fetched('<script src="https://cdn.example/x.js">')
    assert site.fetched('<link href="//fonts.example/css" rel="stylesheet">')
    assert not site.fetched('<a href="https://example.org">x</a> <img src="benchmarks.svg">')


def test_every_verb_of_the_python_page_is_there(tmp_path: Path):
    """Each room of the table has the verbs that its row names, blocking and awaited."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`maestro\.\w+`.*?) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 10
    for made in (Maestro(tmp_path), AsyncMaestro(tmp_path)):
        for rooms, verbs in rows:
            named = re.findall(r"`maestro\.(\w+)`", rooms)
            for room, words in zip(named, verbs.split(";"), strict=True):
                missing = [one for one in re.findall(r"`(\w+)`", words) if not hasattr(getattr(made, room), one)]
                assert not missing, room


def test_every_code_that_a_command_prints_is_in_the_table():
    """Those of exceptions are read from the classes; the others are spelled out where they are printed."""
    sources = [ROOT / "cli" / "maestro_cli" / name for name in ("main.py", "entry.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    printed = set(re.findall(r'_fail\(arguments, \d, "(\w+)"', text)) | set(re.findall(r'"code":"(\w+)"', text))
    table = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert (
        {"usage", "os_error", "internal", "cut_off"}
        <= printed
        <= set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    )
