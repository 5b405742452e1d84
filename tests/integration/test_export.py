"""Exports of what no memory holds, and of what nobody else should see."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.backends import Backend
from tests.support.cli_runs import maestro_command, printed
from tests.support.stored import filler

MIB = 1 << 20
OTHER = "outro--x1y2z3"

#: Made up, in the shape of the real ones.
SECRETS = {
    "github": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "aws": "AKIA" + "Z7QW3ERT5YUI9OPA",
    "anthropic": "sk-ant-" + "api03-" + "x9Y8z7W6v5U4t3S2r1Q0p9O8",
}
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEAx9Y8z7W6v5U4t3S2r1Q0p9O8n7M6l5K4\n" * 20
KEY += "-----END RSA PRIVATE KEY-----\n"


def foreign(project: Path, size: int, *, recorded: bool = False, content: bytes = b"") -> Path:
    """Write another program's archive with an output of a size, most of it a hole; return the output."""
    folder = project / ".maestro/sessions" / OTHER / "runs/0001"
    folder.mkdir(parents=True)
    (folder.parents[1] / "session.json").write_text(json.dumps({"id": OTHER, "state": "com_saida"}))
    meta = {"tool": "echo", "status": "success"} | ({"output_ref": {"size": 9}} if recorded else {})
    (folder / "meta.json").write_text(json.dumps(meta))
    with (folder / "output.txt").open("wb") as file:
        file.write(content)
        file.truncate(size)
    return folder / "output.txt"


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("form", ["md", "json"])
def test_an_output_of_a_terabyte_is_refused_and_the_rest_exported(project: Path, form: str, recorded: bool):
    """Nothing of it is read, whether its size is on record or not: the document says so in its place; verify too."""
    foreign(project, 1 << 40, recorded=recorded)
    done = printed_with_warning(project, "export", OTHER, "--format", form)
    assert "1099511627776 bytes" in done["warnings"][0]
    page = Path(done["path"]).read_text()
    assert len(page) < 10_000
    assert "1099511627776 bytes" in page
    checked = maestro_command(project, "verify", OTHER, "--json")
    assert checked.returncode == 1
    assert [one["path"] for one in json.loads(checked.stdout)["damaged"]] == ["runs/0001/output.txt"]


def printed_with_warning(project: Path, *words: str, env: dict[str, str] | None = None) -> dict:
    done = maestro_command(project, *words, "--json", env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("served")
def test_more_than_a_run_may_print_is_left_out(project: Path):
    """By the setting, as far as a size is not on record; within it, all of it is there."""
    foreign(project, 3 * MIB, content=b"a line\n" * 1000)
    limited = {"MAESTRO_MAX_OUTPUT_BYTES": str(2 * MIB)}
    done = printed_with_warning(project, "export", OTHER, "--format", "json", env=limited)
    (run,) = json.loads(Path(done["path"]).read_text())["runs"]
    assert "output" not in run
    assert run["damage"] == ["the output of run 0001 is left out: it has more than 2097152 bytes"]
    done = printed(project, "export", OTHER, "--format", "json")
    (run,) = json.loads(Path(done["path"]).read_text())["runs"]
    assert (len(run["output"]), run["output"][:7]) == (3 * MIB, "a line\n")


PEAK = """
import sys
from maestro_state import Maestro
with Maestro(sys.argv[1]) as maestro:
    maestro.archive.export(sys.argv[2], form=sys.argv[3])
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024)
"""


@pytest.mark.usefixtures("served")
def test_a_large_output_needs_no_memory(project: Path):
    """Exporting 96 MiB takes hardly more memory than exporting a line; reading it whole, which is the control, does."""

    def peak(code: str, *arguments: str) -> int:
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True, text=True,
                              cwd=Path(__file__).parents[2])  # fmt: skip
        return int(done.stdout)

    path = foreign(project, 7, content=b"a line\n")
    small = {form: peak(PEAK, str(project), OTHER, form) for form in ("md", "json")}
    path.write_bytes(b"another line, of some length\n" * (96 * MIB // 29))
    for form in ("md", "json"):
        assert peak(PEAK, str(project), OTHER, form) < small[form] + 48
    whole = "import sys; open(sys.argv[1]).read();" + PEAK.strip().splitlines()[-1]
    assert peak(whole, str(path)) > 90


@pytest.mark.parametrize("form", ["md", "json"])
def test_a_redacted_export_has_no_secret_in_it(real: Backend, project: Path, form: str):
    """In items, prompts, outputs, messages, notes, errors and fields; without --redact they are there."""
    told = f"use {SECRETS['github']} now"
    with real.open() as library:
        session = library.sessions.start("leaky", note=told)
        fill = filler(real, session.id)
        fill.item(told.encode())
        # A key that reaches over the end of a piece, and one behind it.
        output = b"a line of no interest\n" * (MIB // 22 - 20) + KEY.encode() + SECRETS["aws"].encode() + b"\n"
        fill.run(output, prompt=told.encode())
        library.messages.add("user", told, metadata={"password": "Xy71-hunter-29-long"})
        library.sessions.set("context_summary", f"{SECRETS['anthropic']}")
        library.sessions.set("preferences", {"api_key": "Qw3rTy81-long-value-97"})
        library.sessions.end()
    values = [*SECRETS.values(), "MIIEowIBAAKC", "Xy71-hunter-29-long", "Qw3rTy81-long-value-97"]
    if form == "md":  # the page has no place for these two
        del values[-2:]
    opened = printed_with_warning(project, "export", session.id, "--format", form)
    assert "places look like a secret that a tool printed: export --redact" in opened["warnings"][-1]
    open_page = Path(opened["path"]).read_text()
    assert [value for value in values if value not in open_page] == []
    done = printed(project, "export", session.id, "--format", form, "--redact")
    page = Path(done["path"]).read_text()
    assert [value for value in values if value in page] == []
    assert "redacted" in page
    assert page.count("a line of no interest") == open_page.count("a line of no interest")
    if form == "json":
        assert json.loads(page)["session"]["id"] == session.id


@pytest.mark.usefixtures("served")
def test_the_name_tells_the_format_and_a_file_is_named_once(project: Path, tmp_path: Path):
    """What is called .json is JSON unless the other one is asked for; two snapshots of one file are one file."""
    printed(project, "session", "start", "exported")
    for content in ("one", "two"):
        (project / "a.py").write_text(content)
        maestro_command(project, "context", "add", "a.py")
    for name, words, form in (("x.JSON", [], "json"), ("y.json", ["--format", "md"], "md"), ("z", [], "md")):
        done = printed_with_warning(project, "export", "--output", str(tmp_path / name), *words)
        assert done["format"] == form
        assert done["warnings"] == ["contains the contents of 1 project file: a.py"]
