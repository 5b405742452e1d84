"""Write the parts of README.md and ARCHITECTURE.md that say what code says: `python -m tools.documents` writes,
`--check` only compares. Each part stands between `<!-- name -->` and `<!-- /name -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import click
from maestro_cli.main import COMMANDS

from benchmarks import plot, report
from maestro_state import errors
from maestro_state.state.keys import KEY_GROUPS
from maestro_state.state.scripts import load, names
from maestro_state.tools.catalogue import TOOLS
from maestro_state.tools.options import MODES
from maestro_state.tools.tool import CONVERSATION, FILE, Tool
from maestro_state.vocabulary import TRANSITIONS, Liveness, SessionState

ROOT = Path(__file__).parent.parent
_PART = re.compile(r"<!-- (?P<name>[a-z-]+) -->\n.*?<!-- /(?P=name) -->", re.DOTALL)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with the words that call it."""

    def walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for name, child in command.commands.items():
                yield from walk(f"{words} {name}", child)
        else:
            yield words, command

    for name, (module, attribute, _) in COMMANDS.items():
        yield from walk(f"maestro {name}", getattr(import_module(module), attribute))


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def _commands() -> str:
    rows = []
    for words, command in commands():
        arguments = [
            (f"[{one.make_metavar(click.Context(command))}]" if not one.required else one.human_readable_name.upper())
            for one in command.params
            if isinstance(one, click.Argument)
        ]
        rows.append((f"`{' '.join([words, *arguments])}`".replace("[[", "[").replace("]]", "]").replace("]…]", "…]"),
                     command.get_short_help_str(200)))  # fmt: skip
    return _table(("command", "what it does"), rows)


def _settings() -> str:
    from maestro_state.local.settings import PROJECT, RULES, TRUSTED

    in_file = {PROJECT: "yes", TRUSTED: "trusted"}
    rows = []
    for name, rule in RULES.items():
        default = "login name" if callable(rule.default) else "" if rule.default is None else f"`{rule.default}`"
        rows.append((f"`MAESTRO_{name.upper()}`", default, in_file.get(rule.scope, "no"), rule.meaning))
    return _table(("setting", "default", "project's file", "meaning"), rows)


def _keyspace() -> str:
    rows = []
    for group, keys in KEY_GROUPS.items():
        tag = "<task>" if group == "lease" else "index" if group.endswith("index") else "<id>"
        start = "" if group == "queue" else f"<ns>:{{{tag}}}"
        rows += [(f"`{start}{key.suffix}`", group, key.type, key.holds, key.writers) for key in keys]
    return _table(("key", "group", "type", "holds", "written by"), rows)


def _scripts() -> str:
    rows = []
    for name in names():
        script = load(name)
        rows.append((f"`{name}`", " ".join(script.keys), " ".join(script.returns)))
    return _table(("script", "touches", "answers"), rows)


def _states() -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {SessionState.STARTED}: start_session"]
    for script, steps in TRANSITIONS.items():
        moves = [(before, after) for before, afters in steps.items() for after in afters if before != after]
        lines += [f"    {before} --> {after}: {script}" for before, after in moves]
    return "\n".join([*lines, "```"])


def _glossary() -> str:
    members = [*SessionState, *Liveness]
    rows = [(f"`{member.value}`", f"`{type(member).__name__}.{member.name}`") for member in members]
    return _table(("value", "code"), rows)


def _errors() -> str:
    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.MaestroError)]
    rows = [(f"`{one.code}`", str(one.exit_code), (one.__doc__ or "").splitlines()[0]) for one in found]
    return _table(("error.code", "exit", "meaning"), rows)


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
    return _table(("", *(tool.name for tool in agents)), rows)


def _modes() -> str:
    rows = [
        (f"`{tool.name}`", *(tool.modes[mode].allows if mode in tool.modes else "–" for mode in MODES))
        for tool in TOOLS
        if tool.modes
    ]
    return _table(("it may …", *(f"`{mode}`" for mode in MODES)), rows)


def _benchmarks() -> str:
    return report.readme_part(report.recorded())


PARTS: dict[str, Callable[[], str]] = {
    "commands": _commands,
    "settings": _settings,
    "keyspace": _keyspace,
    "scripts": _scripts,
    "states": _states,
    "glossary": _glossary,
    "errors": _errors,
    "modes": _modes,
    "tool-words": _tool_words,
    "benchmarks": _benchmarks,
}


def fill(text: str) -> str:
    """Return a document with every part as the code says it now."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        # What was measured is kept: only measuring again writes it.
        return f"<!-- {name} -->\n{PARTS[name]()}\n<!-- /{name} -->" if name in PARTS else found[0]

    return _PART.sub(part, text)


def main(check: bool) -> int:
    """Write or compare the documents, and the plot that one of them shows."""
    stale = []
    for name in ("README.md", "ARCHITECTURE.md", "docs/tools.md"):
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        if fill(text) != text:
            stale.append(name)
            if not check:
                path.write_text(fill(text), encoding="utf-8")
    drawn = plot.draw(report.recorded_rows(report.recorded()))
    if report.PLOT.read_text(encoding="utf-8") != drawn:
        stale.append(report.PLOT.name)
        if not check:
            report.PLOT.write_text(drawn, encoding="utf-8")
    if stale:
        print("stale:" if check else "wrote:", ", ".join(stale), "(make generate)" if check else "")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
