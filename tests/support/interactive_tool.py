"""A small interactive tool that keeps its history as Claude Code does: what is typed is asked and answered.

`quit CODE` exits, `die` kills itself, `raw` takes the terminal for itself, `stop` suspends itself as tools in raw mode
do, `size` says how wide its terminal is, `env` which session it is in, `hang` asks and never answers. Ctrl-C is said
and survived. With `-p` it answers what is on its standard input, as runs ask it.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

_BODY = r"""
import json, os, signal, sys, time, tty, uuid
words = sys.argv[1:]
named = [words[at + 1] for at, word in enumerate(words) if word in ("--session-id", "--resume")]
session = named[0] if named else str(uuid.uuid4())
folder = os.path.join(os.environ["CLAUDE_CONFIG_DIR"], "projects", os.getcwd().replace("/", "-"))
os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, session + ".jsonl")
parent = None

def write(kind, **message):
    global parent
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (now * 1000 % 1000)
    row = {"type": kind, "uuid": str(uuid.uuid4()), "parentUuid": parent, "timestamp": stamp, "cwd": os.getcwd(),
           "sessionId": session, "message": message}
    parent = row["uuid"]
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")

def tell(text):
    os.write(1, (text + "\n").encode())

def answer(line):
    usage = {"input_tokens": 12, "output_tokens": 7}
    said = [{"type": "text", "text": "heard " + line}]
    write("assistant", id=str(uuid.uuid4()), role="assistant", model="claude-x", content=said,
          stop_reason="end_turn", usage=usage)
    return usage

if "-p" in words:
    line = sys.stdin.read().strip().splitlines()[-1]
    tell(json.dumps({"type": "system", "subtype": "init", "session_id": session, "model": "claude-x"}))
    write("user", role="user", content=line)
    usage = answer(line)
    tell(json.dumps({"type": "result", "subtype": "success", "is_error": False, "session_id": session,
                     "result": "heard " + line, "usage": usage}))
    sys.exit(0)
signal.signal(signal.SIGINT, lambda *_: tell("interrupted"))
signal.signal(signal.SIGCONT, lambda *_: tell("continued"))
tell("sitting in " + session)
while True:
    try:
        line = sys.stdin.readline()
    except InterruptedError:
        continue
    if not line:
        sys.exit(0)
    line = line.strip()
    if line.startswith("quit"):
        sys.exit(int(line.split()[1]))
    elif line == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif line == "raw":
        tty.setraw(0)
        tell("\x1b[?1003h\x1b[?25lraw")
    elif line == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif line == "size":
        tell("columns %d" % os.get_terminal_size(0).columns)
    elif line == "env":
        tell("session " + os.environ.get("MAESTRO_SESSION", "none"))
    else:
        write("user", role="user", content=line)
        if line != "hang":
            answer(line)
        tell("told " + line)
"""


def put_claude(folder: Path) -> Path:
    """Put it into a folder for PATH, as claude."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "claude"
    path.write_text(f"#!{sys.executable}\n{_BODY}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
