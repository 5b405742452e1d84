"""Write the blocking twin of what is written async: `python -m tools.unasync` writes, `--check` only compares.

`maestro_state/_sync/` comes from `maestro_state/live/`, and what connections can be asked from `net/async_calls.py`.
Works on tokens, so that comments and docstrings stay as they were written, except for the names in NAMES.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent / "maestro_state"
BANNER = "# Generated from maestro_state/{} by `make generate`. Do not edit.\n"

#: What is written async in a room that has blocking modules of its own, and its twin there.
TWINS = {"net/async_calls.py": "net/sync_calls.py"}

PACKAGE = '"""Generated from `live` by `make generate`; never edited."""\n'

#: What a name of the async world is called in the other one.
NAMES = {
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclosing": "closing",
    "asyncio": "time",  # both can sleep; nothing else of it may be used
    "asynccontextmanager": "contextmanager",
    "AnyAsyncConnection": "AnyConnection",
    "connect_async": "connect",
}

#: What the name of an async class begins with.
CLASS = re.compile(r"\bAsync(?=[A-Z])")

#: What is done in a thread there is called straight here, by whoever is in a thread already.
THREAD_IMPORT = "from maestro_state.net.threads import in_thread\n"
THREAD_CALL = re.compile(r"await in_thread\(([\w.]+)(?:, |(?=\)))")

ASYNCIO = re.compile(r"\basyncio\.(\w+)")


def convert(source: str, origin: str = "live") -> str:
    """Return the sync form of an async module."""
    if set(ASYNCIO.findall(source)) - {"sleep"}:
        raise ValueError("of asyncio only sleep has a blocking form")
    source = THREAD_CALL.sub(r"\1(", source.replace(THREAD_IMPORT, ""))
    if "in_thread" in source:
        raise ValueError("in_thread is called on one line with a plain name, or not converted")
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
            text = NAMES[text] if text in NAMES else CLASS.sub("", text)
        elif token.type == tokenize.STRING:  # a docstring, or an annotation
            text = CLASS.sub("", text)
        result.append(gap + text)
    return BANNER.format(origin) + "".join(result).replace("maestro_state.live", "maestro_state._sync")


def write(target: Path, wanted: dict[str, str], *, check: bool) -> int:
    """Have a folder hold these modules and no others, or only tell whether it does."""
    target.mkdir(exist_ok=True)
    there = {path.name: path.read_text(encoding="utf-8") for path in target.glob("*.py")}
    stale = sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name))
    for name in () if check else stale:
        if name in wanted:
            (target / name).write_text(wanted[name], encoding="utf-8")
        else:
            (target / name).unlink()
    if stale:
        print("stale:" if check else "wrote:", ", ".join(stale))
    return int(check and bool(stale))


def main(check: bool) -> int:
    """Write or compare every module."""
    wanted = {path.name: convert(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "live").glob("*.py"))}
    code = write(ROOT / "_sync", wanted | {"__init__.py": PACKAGE}, check=check)
    for origin, twin in TWINS.items():
        text, path = convert((ROOT / origin).read_text(encoding="utf-8"), origin), ROOT / twin
        if path.read_text(encoding="utf-8") != text:
            print("stale:" if check else "wrote:", twin)
            code |= check
            if not check:
                path.write_text(text, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
