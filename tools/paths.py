"""How long the way of a command is through our own code: `python -m tools.paths` counts it for three commands.

Each runs in a process of its own, in place, as it does where no resident process takes it. Counted is what a command
calls, not what importing modules calls: files and functions that take part, and hops, the calls from one file into
another; with PATHS_LIST=1 each of those is listed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent

#: What is counted, and what has to be there before.
COMMANDS = {
    "message add": ["message", "add", "--role", "user", "why does the login fail?"],
    "run": ["run", "--detach", "--tool", "echo", "hello"],
    "session end": ["session", "end"],
}

#: Runs in the process of a command: profiles it, and says on the last line of standard error what it found.
_COUNTING = """
import json, os, sys, threading
from collections import Counter
root, words = sys.argv[1], sys.argv[2:]
files, functions, hops = set(), set(), Counter()
state = threading.local()

def own(code):
    return code.co_filename.startswith(root) and "/.venv" not in code.co_filename

def profile(frame, event, _):
    depth = getattr(state, "importing", 0)
    code = frame.f_code
    if code.co_filename.startswith("<frozen importlib") and code.co_name == "_find_and_load":
        state.importing = depth + (event == "call") - (event == "return")
        return
    if event != "call" or depth or not own(code):
        return
    files.add(code.co_filename)
    functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
    back = frame.f_back
    while back is not None and not own(back.f_code):
        back = back.f_back
    if back is None or back.f_code.co_filename != code.co_filename:
        hops[f"{name(back.f_code) if back else 'start'} → {name(code)}"] += 1

def name(code):
    return f"{code.co_filename.removeprefix(root)}:{code.co_qualname}"

from maestro_cli.main import run
threading.setprofile(profile)
sys.setprofile(profile)
code = run(words)
sys.setprofile(None)
threading.setprofile(None)
found = {"code": code, "files": len(files), "functions": len(functions), "hops": hops.total()}
if os.environ.get("PATHS_LIST"):
    found["each"] = [f"{count:4} {hop}" for hop, count in hops.most_common()]
print(json.dumps(found), file=sys.stderr)
"""


def count(words: list[str], project: str) -> dict[str, object]:
    """Run one command in a project; return what it took."""
    program = [sys.executable, "-c", _COUNTING, f"{ROOT}/", *words]
    done = subprocess.run(program, cwd=project, capture_output=True, text=True, check=False)
    found: dict[str, object] = json.loads(done.stderr.splitlines()[-1])
    if found.pop("code"):
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return found


def main() -> int:
    """Count, and print one line for each command."""
    with tempfile.TemporaryDirectory(prefix="mp-") as project:
        try:
            _all(project)  # once before it counts: the server knows the scripts then, and the stack has its workers
            for name, found in _all(project).items():
                each = found.pop("each", [])
                print(f"{name:12}", "  ".join(f"{kind} {number}" for kind, number in found.items()))
                if isinstance(each, list):
                    print(*each, sep="\n", end="\n" if each else "")
        finally:
            count(["stack", "stop"], project)
    return 0


def _all(project: str) -> dict[str, dict[str, object]]:
    count(["session", "start", "paths", "--tool", "echo"], project)
    found = {}
    for name, words in COMMANDS.items():
        found[name] = count(words, project)
        if name == "run":
            count(["wait"], project)
    return found


if __name__ == "__main__":
    sys.exit(main())
