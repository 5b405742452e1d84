"""The site: mkdocs asks `on_files` and `on_page_markdown`; `python -m tools.site FOLDER` checks what was built.

Pages at the top of the repository (ARCHITECTURE.md and others) and the examples become pages of the site, and links
to them lead there: every document reads well on a code host and on the site, and is written once.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

#: Document of the repository → its page.
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
}
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")
_ELSEWHERE = re.compile(r"""(?:src|href)=["']?(https?:)?//[^"' >]+""")
#: A link that somebody follows is no fetch.
_FOLLOWED = re.compile(r"<a [^>]*>|<link rel=.?(?:canonical|alternate)[^>]*>", re.IGNORECASE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that do not lie in docs/."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source.startswith("examples/"):
            text += "".join(_program(path) for path in sorted((ROOT / "examples").glob("*.py")))
        files.append(File.generated(config, page, content=text))
    decisions = sorted(path.name for path in (ROOT / "docs" / "adr").glob("*.md"))
    config["nav"][-1]["Decisions"].extend(f"adr/{name}" for name in decisions)
    return files


def _program(path: Path) -> str:
    return f"\n## {path.name}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Have links lead to pages of the site."""
    homes = {new: old for old, new in PAGES.items()}
    here = homes.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    markdown = markdown.replace("<details>", "<details markdown>")
    return LINK.sub(lambda found: link(found, here, page.file.src_uri), markdown)


def link(found: re.Match[str], here: str, page: str) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(here), found[2]))
    if target.startswith("examples"):
        name = target.removeprefix("examples/")
        anchor = f"#{name.replace('.', '')}" if name.endswith(".py") else ""
        return f"{found[1]}{posixpath.relpath('examples.md', posixpath.dirname(page) or '.')}{anchor}{found[4]}"
    site = PAGES.get(target, target.removeprefix("docs/"))
    return f"{found[1]}{posixpath.relpath(site, posixpath.dirname(page) or '.')}{found[3] or ''}{found[4]}"


def fetched(text: str) -> list[str]:
    """Return what a page would fetch from elsewhere."""
    return [found[0] for found in _ELSEWHERE.finditer(_FOLLOWED.sub("", text))]


def main(folder: Path) -> int:
    """Say which pages would fetch something from another host; exit with 1 if any does."""
    found = {path: fetched(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    for path, names in found.items():
        for name in names:
            print(f"{path}: fetches {name}")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
