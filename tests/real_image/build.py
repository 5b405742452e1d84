"""Build the images without Docker and call what is in them: `make test-image`, as root on a Debian.

Every RUN line of the Dockerfile is carried out as it stands, in a folder that begins as a Debian of the same release,
with packages from the registries. Then, as the image's user, on a read-only root with what the compose file mounts, and
mounted as an engine does, Maestro carries out a run and each tool says its version. Not tried by this: Docker itself,
and its bases (here with Debian's own Python, and a Node of the same major version from npm).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from maestro_state.tools.catalogue import TOOLS
from tests.real_image.roots import Root, build, debian
from tests.support import image

#: Each image, and the service of the compose file as which it is tried.
TARGETS = {"worker": "worker-b", "server-side": "serve", "worker-tools": "worker-a"}
#: A run from beginning to end, on the private server that the package brings.
_RUN = """
maestro session start image --tool echo > /dev/null
maestro run "on a read-only root"
maestro stack stop > /dev/null
"""
#: Whether a process that has just begun shows its environment to another of its user.
_CLOSED = """
import subprocess, sys
other = subprocess.Popen([sys.executable, "-Sc", "print(1, flush=True); input()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
try:
    print(len(open(f"/proc/{other.pid}/environ").read()))
except PermissionError:
    print("closed")
other.communicate(b"1")
"""
_BUILT = "printf '#!/bin/sh\\necho built' > /tmp/built; chmod u+x /tmp/built; /tmp/built"
_SERVING = "import mcp, starlette, uvicorn; from maestro_state.serve import check_packages; check_packages()"


def main() -> int:
    """Build, look, and say what was seen."""
    needed = ("chroot", "unshare", "apt-get", "dpkg-deb", "npm")
    if os.geteuid() != 0 or not all(map(shutil.which, needed)):
        print(f"this needs root, and {', '.join(needed)}: a Debian with npm", file=sys.stderr)
        return 2
    given = {name: os.environ.get(name) or value for name, value in image.arguments().items()}
    wrong = []
    with tempfile.TemporaryDirectory(prefix="maestro-image-") as folder:
        built = {"debian": debian(Path(folder))}
        for target in TARGETS:
            root = build(target, built, Path(folder), given)
            size = subprocess.run(["du", "-sm", str(root.path)], capture_output=True, text=True, check=True).stdout
            print(f"{target}: {size.split()[0]} MB", flush=True)
            wrong += [f"{target}: {what}" for what in look(target, root, given)]
    for what in wrong:
        print(f"WRONG {what}")
    return int(bool(wrong))


def look(target: str, root: Root, given: dict[str, str]) -> Iterator[str]:
    """Return what is not as it should be."""
    asked = {
        "who it is": (["id", "-u"], r"10001"),
        "a read-only root": (["sh", "-c", "touch /opt/x 2>&1 || echo refused"], r"refused"),
        "a run": (["sh", "-euc", _RUN], r"on a read-only root"),
        "closed to its own user": (["/opt/maestro/bin/python", "-c", _CLOSED], r"closed"),
        "control: any other program is not": (["/usr/local/bin/python", "-c", _CLOSED], r"^\d+$"),
        "a home that can be written": (["sh", "-c", "touch ~/login && echo kept"], r"kept"),
        "a health check": (["sh", "-c", " ".join(image.started("HEALTHCHECK", target)) + " || true"], r"disk"),
    }
    if target == "server-side":
        asked["what serve needs"] = (["python", "-c", f"{_SERVING}; print('there')"], r"there")
        asked["backup"] = (["maestro-backup", "--help"], r"restore")
    else:
        asked["a program that was built in /tmp"] = (["sh", "-euc", _BUILT], r"built")
    if target == "worker-tools":
        by_name = {tool.name: tool for tool in TOOLS}
        for name in given["TOOLS"].split():
            version = re.escape(given[f"{name.upper()}_VERSION"])
            asked[f"{name} {given[f'{name.upper()}_VERSION']}"] = (list(by_name[name].version), version)
        asked["git"] = (["git", "--version"], r"git version")
    for what, (words, wanted) in asked.items():
        done = root.run(words, service=TARGETS[target], capture_output=True, timeout=300)
        is_right = re.search(wanted, done.stdout)
        print(f"  {'ok   ' if is_right else 'WRONG'} {what}", flush=True)
        if not is_right:
            yield f"{what}: exited with {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}"
    found = subprocess.run(["find", str(root.path), "-xdev", "-uid", "10001", "-path", "*/opt/*"], capture_output=True)
    if found.stdout:
        yield f"programs that their own user can change: {found.stdout[:500]!r}"


if __name__ == "__main__":
    sys.exit(main())
