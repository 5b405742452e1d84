"""Write `maestro_state/aio/rooms/` from the blocking rooms: `python -m tools.facade` writes, `--check` only compares.

Each public verb becomes an `async def` of the same signature and docstring that has the blocking room's verb called in
a thread. A room that extends a twin of `live` extends the original here, whose verbs need no thread.
"""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

from tools.unasync import write

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "maestro_state/aio/rooms"
PACKAGE = '"""Generated from the blocking rooms by `make generate`; never edited."""\n'


class Source(NamedTuple):
    """Where the verbs of a room are, and the async room that has the others."""

    module: str
    name: str
    base: str | None = None


SOURCES = (
    Source("maestro_state.api.sessions", "Sessions", "maestro_state.live.records.AsyncRecords"),
    Source("maestro_state.api.archives", "Archives"),
    Source("maestro_state.api.bindings", "Bindings", "maestro_state.live.bindings.AsyncBoundKeys"),
    Source("maestro_state.api.histories", "Histories"),
    Source("maestro_state.api.context", "Context"),
    Source("maestro_state.api.tools", "Tools"),
    Source("maestro_state.api.runs", "Runs", "maestro_state.live.runs.AsyncLiveRuns"),
    Source("maestro_state.upkeep.scheduler_lease", "Schedule"),
    Source("maestro_state.upkeep.doctor", "Health"),
    Source("maestro_state.api.work", "Work"),
    Source("maestro_state.local.stack", "Stack"),
    Source("maestro_state.api.discussions", "Discussions"),
    Source("maestro_state.api.search", "Search"),
)

HEAD = '''# Generated from {module} by `make generate`. Do not edit.
"""{document}"""

from __future__ import annotations
'''


class Names(ast.NodeTransformer):
    """Finds out where the names of a module's annotations and defaults come from."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self._origins: dict[str, tuple[str, str | None]] = {}
        self.imports: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self._origins |= {one.asname or one.name: (node.module, one.name) for one in node.names}
            elif isinstance(node, ast.Import):
                self._origins |= {one.asname or one.name: (one.name, None) for one in node.names}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self._origins[node.name] = (source.module, node.name)
            elif isinstance(node, ast.Assign):
                self._origins |= {one.id: (source.module, one.id) for one in node.targets if isinstance(one, ast.Name)}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Import a name as the room does."""
        if not hasattr(builtins, node.id):
            module, name = self._origins[node.id]
            alias = f" as {node.id}" if name not in (None, node.id) else ""
            self.imports.add(f"from {module} import {name}{alias}" if name else f"import {module}")
        return node


def generated(source: Source) -> str:
    """Return the module of a room, formatted."""
    path = ROOT / (source.module.replace(".", "/") + ".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = Names(source, tree)
    room = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == source.name)
    base = source.base.rpartition(".")[2] if source.base else None
    names.imports.add(f"from {source.module} import {source.name}")
    if source.base:
        names.imports.add(f"from {source.base.rpartition('.')[0]} import {base}")
    names.imports.add("from maestro_state.aio.companion import Room")
    bases = f"Room[{source.name}], {base}" if base else f"Room[{source.name}]"
    lines = [f"class Async{source.name}({bases}):", f'    """{ast.get_docstring(room)}"""', ""]
    for node in room.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            lines += [*_verb(node, names), ""]
    head = HEAD.format(module=source.module, document=ast.get_docstring(tree))
    text = head + "\n" + "\n".join(sorted(names.imports)) + "\n\n\n" + "\n".join(lines)
    for command in (["check", "--select", "I,F401", "--fix", "-q"], ["format", "-q"]):
        ruff = [str(Path(sys.executable).with_name("ruff")), *command, "--stdin-filename", str(TARGET / "room.py"), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def _verb(node: ast.FunctionDef, names: Names) -> list[str]:
    arguments, returns = ast.unparse(names.visit(node.args)), ast.unparse(names.visit(node.returns))
    passed = [one.arg for one in node.args.args[1:]]
    passed += [f"*{node.args.vararg.arg}"] if node.args.vararg else []
    passed += [f"{one.arg}={one.arg}" for one in node.args.kwonlyargs]
    call = f"lambda room: room.{node.name}({', '.join(passed)})"
    said = ast.get_docstring(node) or ""
    document = textwrap.indent(f'"""{said}' + ('\n"""' if "\n" in said else '"""'), "    ")
    if returns.startswith("Iterator["):
        names.imports.add("from collections.abc import AsyncIterator")
        body = [f"    async for one in self._pull({call}):", "        yield one"]
        returns = f"Async{returns}"
    else:
        body = [f"    {'' if returns == 'None' else 'return '}await self._call({call})"]
    lines = [f"async def {node.name}({arguments}) -> {returns}:", *document.splitlines(), *body]
    return [f"    {line}" if line else "" for line in lines]


def main(check: bool) -> int:
    """Write or compare every room."""
    wanted = {f"{source.module.rpartition('.')[2]}.py": generated(source) for source in SOURCES}
    return write(TARGET, wanted | {"__init__.py": PACKAGE}, check=check)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
