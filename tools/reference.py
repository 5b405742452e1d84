"""The pages of `docs/reference/`: commands, settings, keys, scripts, events, errors and JSON, as the code has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec
from maestro_cli.main import maestro as root

from maestro_state import errors
from maestro_state.models.context import ContextItem, ListedItem
from maestro_state.models.imports import Imported, ImportedTokens, ImportFailure, ImportReport
from maestro_state.models.ledger import Budget
from maestro_state.models.message import Event, Message
from maestro_state.models.run import Activity, Flags, OutputRef, Run, SentItem, ToolOptions, Usage
from maestro_state.models.session import Field, Session, SessionStatus, Terminal
from maestro_state.models.work import Breadcrumb, WorkSession
from maestro_state.models.worker import ToolOnWorkers, Worker, WorkerTool
from maestro_state.state.keys import KEY_GROUPS, SHARDS
from maestro_state.state.scripts import load, names
from maestro_state.vocabulary import TRANSITIONS, Liveness, SessionState
from tools.shapes import EVENTS, SHAPES

#: Values that are printed, archived, or both, under the name they have here.
VALUES = (Session, SessionStatus, Terminal, Field, ContextItem, ListedItem, Run, Flags, OutputRef, Usage, ToolOptions,
           SentItem, Activity, Message, Event, WorkSession, Breadcrumb, ImportReport, Imported, ImportedTokens,
           ImportFailure, Budget, Worker, WorkerTool, ToolOnWorkers)  # fmt: skip
_COMMENT = re.compile(r"^    (?P<name>\w+): .*?#: (?P<says>.*)$", re.MULTILINE)
_WIDTH = 100
#: Tags of key groups that are neither a session's id nor `index`.
TAGS = {
    "index": "index-<NN>",
    "lease": "<task>",
    "ledger": "@ledger",
    "tally": "index",
    "change": "index",
    "seat": "<user>",
    "routed": "queue",
    "worker": "@workers",
}
#: What adapters tell of is appended by one script for all of them.
ADAPTERS = Path(inspect.getfile(errors)).parents[1] / "adapters"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with the words that call it."""

    def walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield words, command
            for name, child in sorted(command.commands.items()):
                yield from walk(f"{words} {name}", child)
        else:
            yield words, command

    context = click.Context(root)
    for name in root.list_commands(context):
        yield from walk(f"maestro {name}", root.get_command(context, name))


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table of Markdown."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def _page(title: str, *paragraphs: str) -> str:
    return "\n\n".join((f"# {title}", "<!-- made by `make generate`; do not edit -->", *paragraphs)) + "\n"


def _anchor(words: str) -> str:
    return words.replace(" ", "-")


def _help(words: str, command: click.Command) -> str:
    context = click.Context(
        command, info_name=words, terminal_width=_WIDTH, max_content_width=_WIDTH, help_option_names=["-h", "--help"]
    )
    return command.get_help(context)


def _commands() -> str:
    found = list(commands())
    rows = [(f"[`{words}`](#{_anchor(words)})", command.get_short_help_str(200)) for words, command in found]
    parts = [f"## {words}\n\n```text\n{_help(words, command)}\n```" for words, command in found]
    return _page(
        "Commands",
        "`maestro [--project DIR] [--session REF] COMMAND`. The project is the nearest parent folder with a "
        "`.maestro/`, else the root of the git repository, else the current folder. `REF` is a full id, a slug, "
        "the six characters at an id's end, or `latest`. `--json` prints one [JSON document](json.md); "
        "[exit codes](errors.md) are the same for all.",
        table(("command", "what it does"), rows),
        *parts,
    )


def _settings() -> str:
    from maestro_state.local.settings import PROJECT, RULES, TRUSTED

    in_file = {PROJECT: "yes", TRUSTED: "trusted"}
    rows = []
    for name, rule in RULES.items():
        default = "login name" if callable(rule.default) else "" if rule.default is None else f"`{rule.default}`"
        rows.append((f"`MAESTRO_{name.upper()}`", default, in_file.get(rule.scope, "no"), rule.meaning))
    return _page(
        "Settings",
        "A setting is taken from the first of these that has it: the command line, the `MAESTRO_*` variable, "
        "`$XDG_CONFIG_HOME/maestro/settings.toml`, the project's `.maestro/config/settings.toml`, the default. In the "
        'files the name is in lower case, without its beginning: `redis_url = "…"`. `maestro config` shows each value '
        "and where it came from; passwords are masked.",
        "A project's file may come from an untrusted repository. Before `maestro trust`, which remembers the file's "
        "digest, it sets only what is marked `yes` below. `trusted` needs that command; `no` is never taken from it.",
        table(("setting", "default", "project's file", "meaning"), rows),
    )


def _keys() -> str:
    rows = []
    for group, keys in KEY_GROUPS.items():
        tag = TAGS.get(group, "index" if group.endswith("index") else "<id>")
        start = "" if group == "queue" else f"<ns>:{{{tag}}}"
        rows += [(f"`{start}{key.suffix}`", group, key.type, key.holds, key.writers) for key in keys]
    return _page(
        "Keys on the server",
        "Every key of a session carries its id as hash tag: one script may touch them all, on one server and on a "
        "cluster. Their number is constant, so renewing their TTL costs the same however long the session is. All of "
        "them always have a TTL.",
        f"Keys with the tag `index` span sessions; those of the index of sessions are in {SHARDS} shards, `index-00` "
        f"to `index-{SHARDS - 1}`, by the CRC-32 of the session's id. They are written after the session itself, can "
        "be rebuilt from the sessions, and are never trusted as truth. An entry whose session is gone from the server "
        "is listed as it was "
        "until the next sweep has read it; then it is shown as archived, or as an orphan where there is no archive of "
        "it either.",
        table(("key", "group", "type", "holds", "written by"), rows),
    )


def _scripts() -> str:
    rows = []
    for name in names():
        script = load(name)
        rows.append((f"`{name}`", " ".join(script.keys), " ".join(script.returns)))
    return _page(
        "Scripts",
        "Each state change is one Lua script that runs where the data is; nothing else writes session state. The "
        "header of each file in `maestro_state/state/lua/` says its keys, arguments and answers, and a test holds it "
        "to them.",
        table(("script", "touches", "answers"), rows),
        "## States",
        "The table is `TRANSITIONS` in `maestro_state/vocabulary.py`. The script loader hands each script the states "
        "it may be called in, so no state is spelled in Lua.",
        states(),
        state_words(),
    )


def states() -> str:
    """Return the states of a session, and the scripts that lead from one to the next."""
    found: dict[tuple[str, str], list[str]] = {}
    for script, steps in TRANSITIONS.items():
        for before, afters in steps.items():
            for after in afters:
                if before != after:
                    found.setdefault((before, after), []).append(script)
    rows = [("", f"`{SessionState.STARTED}`", "start_session")]
    rows += [(f"`{before}`", f"`{after}`", ", ".join(scripts)) for (before, after), scripts in sorted(found.items())]
    return table(("from", "to", "by"), rows)


def state_words() -> str:
    """Return the stored words, which are never translated, beside the names that code has for them."""
    rows = [(f"`{one.value}`", f"`{type(one).__name__}.{one.name}`") for one in (*SessionState, *Liveness)]
    return table(("value", "code"), rows)


def stored_events() -> dict[str, list[str]]:
    """Return the types of event that scripts append, by themselves or for an adapter, each with the scripts that do."""
    found: dict[str, list[str]] = {}
    for name in names():
        for kind in sorted(set(re.findall(r"\{'type', '([a-z]+\.[a-z_]+)'", load(name).body))):
            found.setdefault(kind, []).append(name)
    for path in sorted(ADAPTERS.glob("*.py")):
        for kind in re.findall(r"\.event\(\s*\"([a-z]+\.[a-z_]+)\"", path.read_text()):
            found.setdefault(kind, ["add_entries"])
    return found


def _events() -> str:
    stored = stored_events()
    rows = []
    for kind, (data, meaning) in EVENTS.items():
        by = " ".join(f"`{name}`" for name in stored.get(kind, [])) or "made when it is read"
        rows.append((f"`{kind}`", data, meaning, by))
    return _page(
        "Events",
        "What `maestro watch --json` prints and `maestro.follow.events()` yields: `id`, `ts`, `type` and `data`. An id "
        "is a place to go on from (`--from ID`). All streams of a session share one space of ids, so one cursor "
        "follows events, messages and output in one order. `data` also has `user` where somebody other than the "
        "session's owner did it. New types may be added: pass over those that you do not know.",
        table(("type", "data", "meaning", "appended by"), rows),
    )


#: Codes that commands print and that are no exception of the library's: what happens around a command.
_ONLY_OF_COMMANDS = {
    "cut_off": "The process that ran the command was killed in the middle of it.",
    "os_error": "The system refused something: a disk, a file or a pipe that the command was to use.",
    "output_closed": "Standard output is closed, and there would be nothing to print to.",
    "internal": "A fault of Maestro's own; `MAESTRO_DEBUG=1` prints what is to be reported.",
}


def _errors() -> str:
    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.MaestroError)]
    rows = [(f"`{one.code}`", str(one.exit_code), (one.__doc__ or "").splitlines()[0]) for one in found]
    rows += [(f"`{code}`", "1", meaning) for code, meaning in _ONLY_OF_COMMANDS.items()]
    exits = [
        ("0", "done"),
        ("1", "the work itself failed"),
        ("2", "usage, or bad input"),
        ("3", "not found"),
        ("4", "refused in this state, or a conflict"),
        ("5", "server unavailable"),
        ("130", "interrupted"),
    ]
    return _page(
        "Errors and exit codes",
        "An error is one line on stderr: what, the present state, what to do next. With `--json` it is "
        '`{"error": {"code", "message", "hint"}}`. Codes are stable. In Python each is an exception below '
        "`maestro_state.MaestroError`, with `code`, `exit_code` and `hint`; only commands print the last four.",
        table(("exit", "means"), exits),
        table(("error.code", "exit", "meaning"), rows),
    )


def _fields(value: type[msgspec.Struct]) -> str:
    says = {found["name"]: found["says"] for found in _COMMENT.finditer(inspect.getsource(value))}
    rows = []
    for field in msgspec.structs.fields(value):
        kind = field.type.__name__ if isinstance(field.type, type) else str(field.type)
        kind = re.sub(r"(\w+\.)+", "", kind).replace("list[Any]", "list").replace("dict[str, Any]", "object")
        rows.append(
            (f"`{field.name}`", f"`{kind}`", "" if field.required else "may be absent", says.get(field.name, ""))
        )
    return f"### {value.__name__}\n\n{(value.__doc__ or '').strip()}\n\n{table(('field', 'type', '', 'meaning'), rows)}"


def _json() -> str:
    rows = [(f"`{words}`", shape) for words, shape in SHAPES.items()]
    return _page(
        "JSON",
        "What each command prints with `--json`: one document, or one line each for `watch`. Lists are always wrapped "
        "in an object, so that fields can be added; a program should pass over fields that it does not know. A field "
        "that may be absent is left out where it has nothing to say.",
        table(("command", "document"), rows),
        "## Values",
        *(_fields(value) for value in VALUES),
    )


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": _commands,
    "settings.md": _settings,
    "keys.md": _keys,
    "scripts.md": _scripts,
    "events.md": _events,
    "errors.md": _errors,
    "json.md": _json,
}
