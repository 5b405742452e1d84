"""Write what documents say that code says too: `python -m tools.documents` writes, `--check` only compares.

Pages of `docs/` are written by people; a part between `<!-- name -->` and `<!-- /name -->` is made here. Pages below
`docs/reference/` are made whole, by `tools/reference.py`; the settings in
docker-compose.yml and .env.example are by `tools/deployment.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import plot, report
from maestro_state.tools.catalogue import TOOLS
from maestro_state.tools.options import MODES
from maestro_state.tools.tool import CONVERSATION, FILE, Tool
from tools import deployment, reference
from tools.reference import table

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
_PART = re.compile(r"<!-- (?P<name>[a-z-]+) -->\n.*?<!-- /(?P=name) -->", re.DOTALL)


def _tool_words() -> str:
    agents = [tool for tool in TOOLS if tool.resume]

    def files(tool: Tool, kind: str) -> str:
        if kind not in tool.takes:
            return "refused"
        return f"`{' '.join(tool.attach) or '@' + FILE}`".replace(FILE, "path")

    def mode(tool: Tool, name: str) -> str:
        if name not in tool.modes:
            return "refused"
        return f"`{' '.join(tool.modes[name].words)}`" if tool.modes[name].words else "what it does by itself"

    rows = [("`--model M`", *(f"`{tool.model_flag} M`" for tool in agents))]
    rows += [(f"`--mode {name}`", *(mode(tool, name) for tool in agents)) for name in MODES]
    rows.append(("`--continue`", *(f"`{' '.join(tool.resume)}`".replace(CONVERSATION, "ID") for tool in agents)))
    rows += [(f"a file: {kind}", *(files(tool, kind) for tool in agents)) for kind in ("image", "pdf")]
    return table(("", *(tool.name for tool in agents)), rows)


def _modes() -> str:
    rows = [
        (f"`{tool.name}`", *(tool.modes[mode].allows if mode in tool.modes else "–" for mode in MODES))
        for tool in TOOLS
        if tool.modes
    ]
    return table(("it may …", *(f"`{mode}`" for mode in MODES)), rows)


def _decisions() -> str:
    rows = []
    for path in sorted((DOCS / "adr").glob("[0-9]*.md")):
        title, *lines = path.read_text(encoding="utf-8").splitlines()
        date = next(line.removeprefix("Date: ") for line in lines if line.startswith("Date: "))
        number, _, name = title.removeprefix("# ").partition(". ")
        rows.append((number, f"[{name}](adr/{path.name})", date))
    return table(("", "decision", "date"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "state-words": reference.state_words,
    "modes": _modes,
    "tool-words": _tool_words,
    "benchmarks": lambda: report.document_part(report.recorded()),
    "decisions": _decisions,
}


def fill(text: str) -> str:
    """Return a document with every part as the code says it now."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        # What was measured is kept: only measuring again writes it.
        return f"<!-- {name} -->\n{PARTS[name]()}\n<!-- /{name} -->" if name in PARTS else found[0]

    return _PART.sub(part, text)


def expected() -> dict[Path, str]:
    """Return every document with what it should say."""
    by_hand = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(DOCS.glob("*.md"))]
    found = {path: fill(path.read_text(encoding="utf-8")) for path in by_hand}
    found |= {DOCS / "reference" / name: page() for name, page in reference.PAGES.items()}
    found[report.PLOT] = plot.draw(report.recorded_rows(report.recorded()))
    return found | deployment.expected()


def main(check: bool) -> int:
    """Write or compare the documents, and the plot that one of them shows."""
    stale = []
    for path, text in expected().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if stale:
        print("stale:" if check else "wrote:", ", ".join(stale), "(make generate)" if check else "")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
