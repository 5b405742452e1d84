"""What must not drift: public names, generated code, documents, help, headers, file sizes, layers of import."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from maestro_cli.main import COMMANDS

import maestro_state
from maestro_state.state import scripts
from maestro_state.state.keys import NAMES
from maestro_state.vocabulary import FROZEN, TRANSITIONS
from tools import reference

ROOT = Path(__file__).parent.parent
SOURCES = [path for top in ("maestro_state", "workers", "cli", "tests", "tools") for path in (ROOT / top).rglob("*.py")]


def test_every_public_name_can_be_imported():
    """What __all__ promises is there."""
    assert len(set(maestro_state.__all__)) == len(maestro_state.__all__)
    for name in maestro_state.__all__:
        assert getattr(maestro_state, name) is not None
    with pytest.raises(AttributeError):
        maestro_state.Keyspace  # noqa: B018


@pytest.mark.parametrize("generator", ["tools.unasync", "tools.facade", "tools.documents"])
def test_generated_code_and_documents_are_fresh(generator: str):
    """Nobody edited what is generated or forgot `make generate`. A process of its own: click remembers how a command
    was called first, and other tests call some.
    """
    done = subprocess.run([sys.executable, "-m", generator, "--check"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("words", "command"), list(reference.commands()))
def test_every_command_has_help_with_an_example(words: str, command: click.Command):
    """A newcomer sees how each command is used."""
    text = command.help or ""
    assert "Example:" in text, words
    assert words in text or "maestro" in text.split("Example:")[1]


def test_each_command_is_in_the_file_that_the_table_names():
    """The table that saves the imports finds every command, under its own name."""
    for name, file in COMMANDS.items():
        function = f"{name}_" if name in ("import", "open") else name
        assert getattr(import_module(f"maestro_cli.commands.{file}"), function).name == name


@pytest.mark.parametrize("name", scripts.names())
def test_script_headers_tell_the_truth(name: str):
    """Keys and arguments named in a header are used, answers listed there are given, nothing forbidden is called."""
    script = scripts.load(name)
    source = (Path(scripts.LUA_FOLDER) / f"{name}.lua").read_text(encoding="utf-8").split("]]\n", 1)[1]
    assert set(script.keys) <= set(NAMES[script.group])
    for word in (*script.keys, *(argument.removesuffix("...") for argument in script.argv)):
        assert len(re.findall(rf"\b{word}\b", script.body)) > 1, f"{name}: {word} is named and not used"
    answers = set(re.findall(r"\{'([A-Z_]+)'", script.body))
    assert answers == set(script.returns), name
    code = re.sub(r"--.*", "", source)
    assert not re.search(r"'(KEYS|SCAN|TIME)'|cmsgpack|math\.random", code), name
    assert "ALLOWED" not in script.body or "local ALLOWED" in script.body, f"{name} has no row of states"


def test_frozen_states_allow_nothing():
    """No row of the table starts in a state that accepts nothing more."""
    assert not [name for name, row in TRANSITIONS.items() if set(row) & set(FROZEN)]


def test_files_stay_small():
    """No file grows past what can be read in one go."""
    long = [f"{path.relative_to(ROOT)}: {count}" for path in SOURCES
            if (count := len(path.read_text(encoding="utf-8").splitlines())) > 400]  # fmt: skip
    assert not long


def test_only_the_file_layer_says_how_a_name_is_opened():
    """No room opens files its own way: what must not follow a link comes through `fs`."""
    paths = [path for top in ("maestro_state", "workers", "cli") for path in (ROOT / top).rglob("*.py")]
    found = [path.relative_to(ROOT).as_posix() for path in paths if "O_NOFOLLOW" in path.read_text(encoding="utf-8")]
    assert found == ["maestro_state/fs/opening.py"]


#: Files that open by the built-in function: what the kernel shows in /proc, and a script of the package itself.
_OPEN_BY_NAME = {
    "maestro_state/local/embedded/supervision.py", "maestro_state/local/listening.py",
    "maestro_state/local/process.py", "maestro_state/local/process_tree.py",
    "maestro_state/state/scripts.py", "workers/maestro_workers/orphans.py",
}  # fmt: skip


def test_nothing_waits_for_a_pipe_in_a_files_place():
    """The built-in `open` does: a worker that reads a project's file by it hangs, and the run with it. Commands may
    wait for what their user names: `<(…)` of a shell is a pipe.
    """
    paths = [path for top in ("maestro_state", "workers") for path in (ROOT / top).rglob("*.py")]
    assert {path.relative_to(ROOT).as_posix() for path in paths if _calls_open(path)} == _OPEN_BY_NAME


def _calls_open(path: Path) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "open" for called in calls)


def test_reading_commands_import_nothing_heavy():
    """`session list` pays for click, msgspec and a socket, and for no library it does not use."""
    heavy = ("asyncio", "redis", "rq", "pydantic", "structlog", "logging", "urllib.request", "pathlib", "tempfile")
    code = (
        "import sys\nfrom maestro_cli.main import run\nfrom maestro_state.api import maestro, sessions\n"
        "from maestro_state._sync import messages\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_handing_a_command_over_imports_next_to_nothing():
    """The way to the resident process is a few small modules: most of what a command costs is what it imports."""
    code = (
        "import sys, _socket\nbefore = set(sys.modules)\nfrom maestro_cli import entry\n"
        "entry._may_be_handed_over(['status'])\nline = _socket.socket(_socket.AF_UNIX)\n"
        "try: entry._connect(line, '/nowhere')\nexcept OSError: pass\n"
        "entry._request(['status']), entry.installation()\nprint(*sorted(set(sys.modules) - before))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["__future__", "binascii", "errno", "maestro_cli", "maestro_cli.entry",
                                    "maestro_state", "maestro_state.fs", "maestro_state.fs.opening",
                                    "maestro_state.fs.private_socket",
                                    "maestro_state.startup"]  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="git says what belongs to the project")
def test_the_project_speaks_only_of_itself():
    """No absolute path of a machine, no registry, no leftover note."""
    forbidden = re.compile("/roo[t]/|/wor[k]/|TOD[O]|FIXM[E]|index-ur[l]|find-link[s]")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = [ROOT / name for name in listed if (ROOT / name).is_file()]
    assert not [path for path in files if forbidden.search(path.read_text("utf-8", "replace"))]
