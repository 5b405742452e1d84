"""The first screen: what `maestro` alone shows. One line for each thing people do, in groups, on 80 × 40 characters.

Imports no command: what each is called and does is said here, and a test holds it against the commands that exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from maestro_cli import output

_FIRST_STEPS = (
    ("maestro session start fix-login", "start a session in this project"),
    ("maestro use claude", "choose the tool (maestro tool list)"),
    ('maestro run "why does the login fail?"', "ask it; the answer streams here"),
    ("maestro watch", "follow it all from another terminal"),
)

#: Group → its lines: commands that belong together, and what they are for.
_GROUPS: dict[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "Ask": (
        (("session",), "start, list, show, switch and end sessions"),
        (("use", "tool"), "choose the AI tool; list and check them"),
        (("run",), "ask the tool, with the session's context"),
        (("open",), "sit in the tool; what is said is in the session"),
        (("context",), "files, texts and outputs that runs are sent"),
        (("cancel", "wait"), "stop a run, whoever started it; wait for its end"),
    ),
    "Read": (
        (("status",), "where the session stands, and who is attached"),
        (("watch",), "follow the session live, whoever asks"),
        (("runs", "show"), "what was run; what a run printed"),
        (("messages", "message"), "read the conversation; add to it"),
        (("search",), "find what was said, asked, answered or added"),
        (("usage", "budget"), "tokens and cost by day, tool or user; limit them"),
    ),
    "Keep": (
        (("export", "import"), "the history in one file; a tool's own, as sessions"),
        (("verify",), "check every digest of an archive"),
        (("pull",), "bring a session from the team's server"),
        (("cleanup",), "remove old outputs and logs; made for cron"),
    ),
    "Agents": (
        (("mcp",), "the session for agents: install claude, codex, …"),
        (("discuss",), "plan with a tool, replay what was decided"),
        (("wsession", "work"), "work sessions, and the breadcrumbs in them"),
    ),
    "Set up": (
        (("serve", "token"), "an API, live events and a page; who may use them"),
        (("doctor",), "check server, disk and set-up; says what to do"),
        (("config", "trust"), "settings and their sources; trust this project's"),
        (("stack",), "the embedded server: status and stop"),
        (("completion",), "what TAB offers, in bash, zsh and fish"),
    ),
    "Team": (
        (("worker", "workers"), "carry out runs for a team; who does, and how"),
        (("scheduler", "sweep"), "checkpoint and recover: all the time, or once"),
        (("acl",), "write the access list of a team's server"),
    ),
}

_FOOTER = """maestro COMMAND --help shows the options of a command, and an example.
Before the command: --session REF for another session than the active one,
--project DIR for another folder. maestro --version."""


def lines(commands: Mapping[str, object]) -> Iterator[str]:
    """Yield the lines of the screen; a command that no group names is shown all the same, among the last.

    A terminal on which they would scroll out of sight has the first steps at the end.
    """
    title = f"{output.colour('maestro', bold=True)}: one live session for all your AI command-line tools."
    steps = [output.colour("First steps", bold=True), *(f"  {command:<40} {text}" for command, text in _FIRST_STEPS)]
    rest = [*_groups(commands), "", *_FOOTER.split("\n")]
    if output.is_terminal() and len(steps) + len(rest) + 3 >= output.screen_rows():
        steps, rest = rest, steps
    yield from (title, "", *steps, "", *rest)


def _groups(commands: Mapping[str, object]) -> Iterator[str]:
    for group, rows in _GROUPS.items():
        yield from _group(group, [(tuple(name for name in names if name in commands), text) for names, text in rows])
    named = {name for rows in _GROUPS.values() for names, _ in rows for name in names}
    others = ", ".join(name for name in commands if name not in named)
    if others:
        yield from _group("Others", [((others,), "")])


def _group(title: str, rows: list[tuple[tuple[str, ...], str]]) -> Iterator[str]:
    for names, text in rows:
        if names:
            listed = ", ".join(names)
            yield f"{output.colour(f'{title:<8}', bold=True)} {output.colour(f'{listed:<18}', 'cyan')} {text}".rstrip()
            title = ""
