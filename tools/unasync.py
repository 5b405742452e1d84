"""Write `maestro_state/_sync/` from `maestro_state/api/`: `python -m tools.unasync` writes, `--check` only compares.

Works on tokens, so that comments and docstrings stay as they were written, except for the names in NAMES.
"""

from __future__ import annotations

import io
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent / "maestro_state"
BANNER = "# Generated from maestro_state/api by `make generate`. Do not edit.\n"

#: What a name of the async world is called in the other one.
NAMES = {
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclosing": "closing",
    "asynccontextmanager": "contextmanager",
    "AnyAsyncConnection": "AnyConnection",
    "connect_async": "connect",
    "pause_async": "pause",
    "call_blocking_async": "call_blocking",
}


def convert(source: str) -> str:
    """Return the sync form of an async module."""
    drop_space = False
    result: list[str] = []
    line, column = 1, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        (start_line, start_column), text = token.start, token.string
        gap = ""
        if start_line > line:
            column = 0
            line = start_line
        if start_column > column:
            gap = source.splitlines(keepends=True)[line - 1][column:start_column]
        if drop_space:
            gap = ""
            drop_space = False
        line, column = token.end
        if token.type == tokenize.NAME:
            if text in ("async", "await"):
                result.append(gap)
                drop_space = True
                continue
            if text in NAMES:
                text = NAMES[text]
            elif text.startswith("Async") and text[5:6].isupper():
                text = text[5:]
        elif token.type == tokenize.STRING and text.startswith('"""'):
            text = text.replace("AsyncMaestro", "Maestro")
        result.append(gap + text)
    return BANNER + "".join(result).replace("maestro_state.api", "maestro_state._sync")


def main(check: bool) -> int:
    """Write or compare every module."""
    stale = []
    target = ROOT / "_sync"
    target.mkdir(exist_ok=True)
    for path in sorted((ROOT / "api").glob("*.py")):
        wanted = convert(path.read_text(encoding="utf-8"))
        if path.name == "__init__.py":
            wanted = '"""Generated from `api` by `make generate`; never edited."""\n'
        twin = target / path.name
        if not twin.exists() or twin.read_text(encoding="utf-8") != wanted:
            stale.append(twin.name)
            if not check:
                twin.write_text(wanted, encoding="utf-8")
    if stale:
        print("stale:" if check else "wrote:", ", ".join(stale))
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
