"""Claude Code: `projects/<folder>/<uuid>.jsonl`, sub-agents in `<uuid>/subagents/agent-<id>.jsonl` beside it.

Every line of an answer repeats the whole usage: it is counted by the answer's id. Earlier versions have sub-agents'
lines among the others (`isSidechain`): each chain of them is a conversation of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

import msgspec

from maestro_state.errors import MaestroError
from maestro_state.histories.claude_lines import (
    ASIDE,
    INTERRUPTED,
    SYNTHETIC,
    Line,
    Parser,
    is_command,
    read_line,
    results_in,
    typed,
)
from maestro_state.histories.lines import (
    HEAD_LINES,
    decoded,
    decoded_at,
    files_below,
    first_line,
    open_history,
    readable,
    stamped,
    text_of,
)
from maestro_state.histories.tail import Tail
from maestro_state.histories.values import Broken, Conversation, Stamped, Step
from maestro_state.models.undecodable import UNDECODABLE

TOOL = "claude"

#: What yields the lines of one conversation of a file.
Lines = Callable[[BinaryIO], Iterator[Line | Broken]]

_SIDECHAIN = (b'"isSidechain":true', b'"isSidechain": true')


class _Meta(msgspec.Struct):
    call: str | None = msgspec.field(name="toolUseId", default=None)
    about: str | None = msgspec.field(name="description", default=None)


_meta = msgspec.json.Decoder(_Meta).decode


def roots(environment: Mapping[str, str], home: str) -> list[str]:
    """Return where it keeps its histories."""
    base = environment.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    return [os.path.join(base, "projects")]


def files(path: str) -> Iterator[Stamped]:
    """Yield the histories below a folder, or a file; those of sub-agents belong to their conversation's."""
    for found in files_below(path, lambda one: one.endswith(".jsonl")):
        if os.path.isdir(path) and os.path.basename(os.path.dirname(found)) == "subagents":
            continue
        yield stamped(found, *_agents_of(found))


def _agents_of(path: str) -> list[str]:
    folder = os.path.join(path.removesuffix(".jsonl"), "subagents")
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return [folder]  # who opens it is told why
    return [os.path.join(folder, name) for name in names if name.startswith("agent-") and name.endswith(".jsonl")]


def conversations(found: Stamped) -> Iterator[Conversation]:
    """Yield the conversation of a file, with those of its sub-agents."""
    path = found.path
    one = _found(path, found, os.path.basename(path).removesuffix(".jsonl"), _own)
    if one is None:
        return
    one.children, one.unreadable = readable(_agents_of(path), _agent)
    one.children += _inline(path, found)
    yield one


def _all(file: BinaryIO) -> Iterator[Line | Broken]:
    return (line for _, line in decoded(file, read_line))


def _own(file: BinaryIO) -> Iterator[Line | Broken]:
    """Yield the lines that are no sub-agent's."""
    return (line for line in _all(file) if isinstance(line, Broken) or not line.sidechain)


def _found(path: str, stamp: Stamped, external_id: str, lines: Lines) -> Conversation | None:
    """Read the head of a conversation; None when nobody says anything in it."""
    title = cwd = command = None
    is_any = False
    with open_history(path) as file:
        for number, line in enumerate(lines(file)):
            if isinstance(line, Broken):
                continue
            cwd = cwd or line.cwd
            if line.type in ("user", "assistant") and line.message:
                is_any = True
                if title is None and line.type == "user" and not line.meta and not line.compacted:
                    spoken = _spoken_title(line.message.content)
                    if is_command(line.message.content):
                        command = spoken  # a title if it is answered: /clear begins many conversations
                    else:
                        title = spoken
                elif title is None and line.type == "assistant" and line.message.model != SYNTHETIC:
                    title = command
            if (title and cwd) or (number >= HEAD_LINES and is_any):
                break
    if not is_any:
        return None
    return Conversation(
        tool=TOOL,
        external_id=external_id,
        path=path,
        title=title or command,
        cwd=cwd,
        updated_ms=stamp.updated_ms,
        stamp=stamp.stamp,
        read=lambda seen: _steps(path, lines, seen),
    )


def _spoken_title(content: Any) -> str | None:
    if results_in(content):
        return None
    text = text_of(content)
    if text.startswith((*ASIDE, INTERRUPTED)):
        return None
    return first_line(typed(text))


def _agent(path: str) -> Conversation | None:
    name = os.path.basename(path).removesuffix(".jsonl").removeprefix("agent-")
    one = _found(path, stamped(path), name, _all)
    if one is not None:
        try:
            with open_history(path.removesuffix(".jsonl") + ".meta.json") as file:
                meta = _meta(file.read(1 << 20))
        except (MaestroError, *UNDECODABLE):
            return one  # it only tells what the conversation is about
        one.call_id, one.title = meta.call, meta.about or one.title
    return one


def _inline(path: str, stamp: Stamped) -> list[Conversation]:
    """Return the chains of sub-agents' lines in a conversation's own file; most have none."""
    with open_history(path) as file:
        rest = b""
        while piece := file.read(1 << 20):
            if any(mark in rest + piece for mark in _SIDECHAIN):
                break
            rest = piece[-32:]
        else:
            return []
        file.seek(0)
        chains: dict[str, str] = {}
        places: dict[str, list[int]] = {}
        begins = 0
        for ends, line in decoded(file, read_line):
            if not isinstance(line, Broken) and line.sidechain and line.uuid:
                first = chains[line.uuid] = chains.get(line.parent or "", line.uuid)
                places.setdefault(first, []).append(begins)
            begins = ends
    children = (_found(path, stamp, first, partial(_picked, chain)) for first, chain in places.items())
    return [child for child in children if child]


def _picked(places: list[int], file: BinaryIO) -> Iterator[Line]:
    """Yield the lines of one chain: there may be thousands of them in a file, which is not read through for each."""
    return decoded_at(file, read_line, places)


def _steps(path: str, lines: Lines, seen: Container[str]) -> Iterator[Step]:
    parser = Parser(seen)
    with open_history(path) as file:
        for line in lines(file):
            if isinstance(line, Broken):
                yield line
            else:
                yield from parser.take(line)
    yield from parser.rest()


def tail(seen: Container[str]) -> Tail[Line]:
    """Return what reads a conversation that goes on; sub-agents' lines are not its own."""
    parser = Parser(seen)
    return Tail(read_line, lambda line: iter(()) if line.sidechain else parser.take(line), parser.rest)
