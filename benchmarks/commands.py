"""A command, cold: from Enter to prompt, beside an empty click program and the peers' own commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rig import Row, race, rig, row

_EMPTY = "import click\n@click.command()\ndef empty(): pass\nempty()\n"


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig(pinned=False) as bench:
        bin_folder = Path(sys.executable).parent
        session = bench.session(20)
        empty = Path(tempfile.mkdtemp()) / "empty.py"
        empty.write_text(_EMPTY)

        def runs(*words: str) -> object:
            return subprocess.run(words, cwd=bench.folder, stdout=subprocess.DEVNULL, check=True)

        maestro = str(bin_folder / "maestro")
        figures = race(
            {
                "empty click program": lambda: runs(sys.executable, str(empty)),
                "rq info": lambda: runs(str(bin_folder / "rq"), "info", "--url", f"redis://127.0.0.1:{bench.port}"),
                "session status": lambda: runs(maestro, "session", "status", session),
                "session list": lambda: runs(maestro, "session", "list"),
                "messages": lambda: runs(maestro, "--session", session, "messages"),
                "message add": lambda: runs(maestro, "--session", session, "message", "add", "--role", "user", "x"),
            },
            calls=3,
        )
        for name in ("session status", "session list", "messages", "message add"):
            yield row(f"maestro {name}", figures, name, "rq info", limit=0.8)
            yield row(f"maestro {name}", figures, name, "empty click program", aim=1.2)
        shutil.rmtree(empty.parent)
