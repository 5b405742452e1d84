"""`docs/reference/json.md` tells the truth: what commands print has the fields that the page names, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runs import printed
from tests.support.embedded_project import temporary_project
from tools import reference
from tools.shapes import SHAPES

#: A life in which most commands have something to say; the words of a command come first.
LIFE = (
    "session start fix-login --tool echo", "session list", "session status", "status", "context add login.py",
    "context list", "context show ctx-0001", "use echo", "run hello", "runs", "show last", "wait", "messages",
    "message add --role user hey", "session get preferences", "session set preferences {}", "context use-output last",
    "context remove ctx-0002", "context refresh", "context clear", "budget set --user ana --cost 5", "budget list",
    "usage", "budget remove --user ana", "tool list", "tool check echo",
    "session sync", "stack status", "config", "doctor", "verify --secrets", "sweep", "cleanup --dry-run",
    "session fork latest second", "session switch fix-login", "session delete second --yes", "session end",
    "discuss start --kind global", "discuss say hi", "discuss list", "discuss show", "wsession start work_task",
    "wsession breadcrumb add --cookie latest --prompt a --response b", "wsession breadcrumbs", "wsession stats",
    "wsession timeline", "wsession list", "wsession tree", "wsession show", "work latest --once",
    "wsession pause latest",
    "wsession resume latest", "wsession end latest", "search hey", "token add ana", "token list", "trust", "stack stop",
)  # fmt: skip
#: The page refers to another specification for these.
META = "session_id context contract_type created_at updated_at status final_json_present engine model initial_prompt"


@pytest.fixture
def project() -> Iterator[Path]:
    """Return a project whose stack starts with the first command."""
    with temporary_project() as folder:
        (folder / "login.py").write_text("def login(): ...\n")
        yield folder


def _named(shape: str) -> set[str]:
    """Return the fields that a row of the page names, those of the values it links to included."""
    fields = set(re.findall(r"`([a-z_]+)`", shape))
    for value in reference.VALUES:
        if f"[{value.__name__}]" in shape and " of [" not in shape:
            fields |= set(value.__struct_fields__)
    return fields | set(META.split()) if "`meta.json`" in shape else fields


def test_documents_have_the_fields_that_the_page_names(project: Path):
    """Every command of a life prints fields that its row names."""
    for line in LIFE:
        words = max((one for one in SHAPES if f"{line} ".startswith(f"{one} ")), key=len)
        document = printed(project, *line.split(" "))
        assert set(document) <= _named(SHAPES[words]), line


def test_most_rows_are_tried():
    """A row that nobody tries may say anything."""
    tried = {one for one in SHAPES if any(f"{line} ".startswith(f"{one} ") for line in LIFE)}
    assert len(tried) > 0.8 * len(SHAPES)
