"""What the tools do, on a session that is looked up anew at every call. Knows Maestro, not the protocol."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import UNSET

from maestro_state.aio.maestro import AsyncMaestro
from maestro_state.errors import InvalidValue, NoActiveSession, NoProject, NoTool
from maestro_state.mcp import arguments as given
from maestro_state.mcp.answers import (
    CONTENT_MAX,
    EVENTS_MAX,
    Tail,
    clip,
    event_document,
    message_documents,
)
from maestro_state.mcp.clients import ClientPresence
from maestro_state.mcp.descriptions import CURSOR, HINT, NOTICE
from maestro_state.models.message import Event, Message
from maestro_state.models.names import is_stream_id
from maestro_state.models.run import OPEN, Run
from maestro_state.state.calls.events import START
from maestro_state.tools import names
from maestro_state.vocabulary import FROZEN

Document = dict[str, Any]

#: Messages without `last`: the newest, or those that follow a cursor.
NEWEST, FOLLOWING = 20, 200
#: How long a page of events is waited for to fill up after its first, in milliseconds.
_MORE_MS = 1


class Operations:
    """One project's sessions, as agents use them."""

    def __init__(self, maestro: AsyncMaestro, presence: ClientPresence, *, command_lines: bool = True) -> None:
        """Take an open Maestro, who is to be shown as attached, and whether runs may name any program."""
        self._command_lines = command_lines
        self.maestro = maestro
        self._presence = presence
        self._active: tuple[object, str] | None = None
        self._owner = ("", "")  #: of which session, and who

    async def session_id(self) -> str:
        """Return the session that is meant now, with the client shown as attached to it."""
        session_id = await self._resolve()
        await self._presence.attend(session_id)
        return session_id

    async def _resolve(self) -> str:
        """Read which session is active, in a thread, when it has changed since: one stat tells. A thread for each call
        would take as long as everything else in it together.
        """
        if self.maestro.blocking.pinned:
            return await self.maestro.sessions.resolve()
        mark = self.maestro.project.active_mark()
        if mark is None or self._active is None or self._active[0] != mark:
            self._active = (mark, await self.maestro.sessions.resolve())
        return self._active[1]

    async def get_session(self, _: given.GetSession) -> Document:
        try:
            session_id = await self.session_id()
        except (NoActiveSession, NoProject):
            return {"session": None, "hint": HINT}
        return await self.status(session_id)

    async def status(self, ref: str) -> Document:
        """Return everything about a session's present, and the cursor from which changes of it are seen."""
        cursor = await self.maestro.follow.newest(ref)
        status: Document = msgspec.to_builtins(await self.maestro.sessions.status(ref))
        return {"notice": NOTICE, **status, "cursor": cursor}

    async def search_sessions(self, wanted: given.SearchSessions) -> Document:
        await self.session_id()
        found = await self.maestro.search.find(wanted.query, limit=wanted.limit)
        return {"notice": NOTICE, **msgspec.to_builtins(found)}

    async def read_messages(self, wanted: given.ReadMessages) -> Document:
        session_id = await self.session_id()
        room = self.maestro.messages
        more = False
        if wanted.since is UNSET:
            found = await room.last(NEWEST if wanted.last is UNSET else wanted.last, session_id)
        else:
            found = await room.since(_after(wanted.since), session_id)
            if wanted.last is UNSET:  # from the first on: whoever goes on by the cursor misses nothing
                more, found = len(found) > FOLLOWING, found[:FOLLOWING]
            else:
                found = found[-wanted.last :]
        cursor = found[-1].id if found else wanted.since
        if cursor is UNSET:
            cursor = await self.maestro.follow.newest(session_id) or "start"
        messages = await self._documents(found, session_id)
        return {"notice": NOTICE, "messages": messages, "cursor": cursor, **({"more": True} if more else {})}

    async def all_messages(self, session_id: str) -> list[Document]:
        """Return what is said last, for the resource."""
        return await self._documents(await self.maestro.messages.last(FOLLOWING, session_id), session_id)

    async def _documents(self, found: list[Message], session_id: str) -> list[Document]:
        """Return messages with who wrote each."""
        return message_documents(found, await self.owner(session_id))

    async def owner(self, session_id: str) -> str:
        """Return whose session it is, which does not change, and is looked up once."""
        if self._owner[0] != session_id:
            self._owner = (session_id, (await self.maestro.sessions.read(session_id)).user_id)
        return self._owner[1]

    async def post_message(self, wanted: given.PostMessage) -> Document:
        session_id = await self.session_id()
        client = self._presence.name()
        metadata = {"via": "mcp", **({"client": client} if client else {})}
        added = await self.maestro.messages.add(wanted.role, wanted.content, session_id, metadata=metadata)
        return {"id": added.id, "cursor": added.id}

    async def read_context(self, wanted: given.ReadContext) -> Document:
        session_id = await self.session_id()
        if wanted.item is UNSET:
            items = await self.maestro.context.list(session_id)
            return {"notice": NOTICE, "items": msgspec.to_builtins(items)}
        item, content = await self.maestro.context.show(str(wanted.item), session_id)
        text = clip(content.decode(errors="replace"), CONTENT_MAX)
        return {"notice": NOTICE, "items": [{**msgspec.to_builtins(item), "content": text}]}

    async def add_context(self, wanted: given.AddContext) -> Document:
        if (wanted.path is UNSET) == (wanted.text is UNSET):
            raise InvalidValue("path and text were both given, or neither", hint="give one of them")
        session_id = await self.session_id()
        kind = "file" if wanted.text is UNSET else "text"
        said = str(wanted.path if wanted.text is UNSET else wanted.text)
        folder = self.maestro.project.checkout
        added = await self.maestro.context.add(said, ref=session_id, kind=kind, folder=folder)
        document: Document = msgspec.to_builtins(added)
        return document

    async def wait_for_events(self, wanted: given.WaitForEvents) -> Document:
        session_id = await self.session_id()
        newest = wanted.cursor is UNSET
        cursor = await self.maestro.follow.newest(session_id) if newest else _after(wanted.cursor)
        found: list[Event] = []
        if wanted.timeout_s > 0:
            found = await self._events(session_id, cursor, max(1, int(wanted.timeout_s * 1000)), most=1)
        if found or wanted.timeout_s <= 0:
            found += await self._events(session_id, found[-1].id if found else cursor, _MORE_MS, most=EVENTS_MAX)
        document: Document = {
            "notice": NOTICE,
            "events": [event_document(event) for event in found],
            "cursor": found[-1].id if found else cursor,
        }
        if not found and (session := await self.maestro.sessions.read(session_id)).state in FROZEN:
            document["hint"] = f"session {session_id} is {session.state}: nothing more will happen in it"
        return document

    async def _events(self, session_id: str, cursor: str | None, idle_ms: int, *, most: int) -> list[Event]:
        """Return what happens after a cursor until nothing does for a while, or it is enough to read."""
        found: list[Event] = []
        size = 0
        events = self.maestro.follow.events(session_id, cursor=cursor, until_idle_ms=idle_ms)
        async with aclosing(events) as following:  # type: ignore[type-var]
            async for event in following:
                found.append(event)
                size += 100 + sum(len(str(value)) for value in event.data.values())
                if size >= most:
                    break
        return found

    async def run_tool(self, wanted: given.RunTool) -> Document:
        if (wanted.prompt is UNSET) == (wanted.run_id is UNSET):
            raise InvalidValue("prompt and run_id were both given, or neither", hint="give one of them")
        if wanted.run_id is not UNSET and wanted.tool is not UNSET:
            raise InvalidValue("a run has its tool already", hint="leave out tool, or run_id")
        session_id = await self.session_id()
        if wanted.prompt is not UNSET:
            tool = None if wanted.tool is UNSET else str(wanted.tool)
            if tool is not None and not self._command_lines and tool.strip() not in names():
                raise InvalidValue("command lines are for admins", hint=f"tool is one of {', '.join(names())}")
            terminal = self._presence.name()
            try:
                run = await self.maestro.runs.start(str(wanted.prompt), session_id, tool=tool, terminal=terminal)
            except NoTool as error:
                raise InvalidValue(
                    str(error), hint="give tool: claude, codex, gemini, qwen, opencode or llm"
                ) from error
        else:
            run = await self.maestro.runs.read(str(wanted.run_id), session_id)
        if run.status in OPEN and wanted.wait_s > 0:
            run = await self._wait(run, session_id, wanted.wait_s)
        return {"notice": NOTICE, "run": msgspec.to_builtins(run), "output": await self.output_end(run.id, session_id)}

    async def _wait(self, run: Run, session_id: str, wait_s: float) -> Run:
        try:
            async with asyncio.timeout(wait_s):
                return await self.maestro.runs.wait(run, session_id)
        except TimeoutError:
            return await self.maestro.runs.read(run.id, session_id)

    async def output_end(self, run_id: str, session_id: str) -> str:
        """Return the end of what a run printed so far."""
        tail = Tail()
        async for piece in self.maestro.runs.chunks(run_id, session_id):
            tail.add(piece)
        return tail.text()


def _after(cursor: object) -> str:
    """Return the id to read after; InvalidValue tells a model what a cursor is."""
    said = str(cursor)
    if said == "start":
        return START
    if not is_stream_id(said):
        raise InvalidValue(f"'{said[:40]}' is not a cursor", hint=CURSOR)
    return said
