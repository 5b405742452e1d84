"""A conversation becomes the archive of a session, by generations as every other: built aside, swapped in whole.

What the archive has is told by the tool's own ids. Of a conversation that has grown only the new is added, as one more
generation; what a tool took out of its history since (rewound, compacted, rewritten) stays, and stays once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import fsum
from typing import Any, cast

import msgspec

from maestro_state.clock import iso
from maestro_state.errors import FileCorrupt
from maestro_state.histories.facts import Facts, Kept, Written
from maestro_state.histories.lines import BROKEN_MAX
from maestro_state.histories.turns import Turn, activity_of
from maestro_state.histories.values import Asked, Broken, Conversation, Ended, Noted, Said, Step, Tokens, Used
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.writer import Generation, replacing
from maestro_state.models.message import id_order
from maestro_state.models.names import slug_of
from maestro_state.models.run import OutputRef, Run, last_output
from maestro_state.models.session import Counters, Session, Stats
from maestro_state.models.strict_json import DEPTH_MAX, is_deeper
from maestro_state.vocabulary import SessionState

#: Lines that are gathered before they are written.
_BATCH = 256


class _Line(msgspec.Struct):
    class Metadata(msgspec.Struct):
        external_ids: list[str] = []

    metadata: Metadata | None = None


class _EventLine(msgspec.Struct):
    type: str = ""


_keys_in = msgspec.json.Decoder(_Line).decode
_event_in = msgspec.json.Decoder(_EventLine).decode


class _Nothing(msgspec.Struct):
    """What a trial run writes to where there is no archive yet: not even a folder is made."""

    session_id: str
    old: None = None


def write(home: Home, session_id: str, conversation: Conversation, facts: Facts, *, dry_run: bool = False) -> Written:
    """Bring the archive of a conversation up to date; with `dry_run`, only tell what would come of it."""
    if dry_run and session_id not in home.ids():
        return _drafted(_Nothing(session_id), conversation, facts, is_dry=True)
    with replacing(home, session_id) as generation:
        return _drafted(generation, conversation, facts, is_dry=dry_run)


def _drafted(generation: Generation | _Nothing, conversation: Conversation, facts: Facts, *, is_dry: bool) -> Written:
    draft = Draft(cast(Generation, generation), conversation, facts, is_dry=is_dry)
    draft.take(conversation.read(draft.seen))
    return draft.finish()


def _shallow(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call whose arguments everybody can read: nested deeper, they are kept as text."""
    arguments = call.get("args")
    if not isinstance(arguments, dict | list) or not is_deeper(arguments, DEPTH_MAX):
        return call
    return {**call, "args": {"arguments": msgspec.json.encode(arguments).decode()}}


class Draft:
    """The next generation of one conversation's archive."""

    def __init__(self, generation: Generation, conversation: Conversation, facts: Facts, *, is_dry: bool) -> None:
        """Read what there is."""
        self._generation, self._conversation, self._facts, self._is_dry = generation, conversation, facts, is_dry
        self.seen: set[str] = set()
        self._runs: list[Run] = []
        self._kept = Kept()
        self._last = (0, -1)
        self._first_ms: int | None = None
        self._turn: Turn | None = None
        self._loose: dict[str, Used] = {}
        self._counted: set[str] = set()
        self._said: list[dict[str, Any]] = []
        self._happened: list[dict[str, Any]] = []
        self._notes: dict[str, str] = {}
        self._is_changed = False
        self._last_ms = 0
        self._before_events: Callable[[], None] | None = None
        self.broken: list[Broken] = []
        self.broken_count = 0
        if generation.old is not None:
            self._read_old(generation)
        self._places = {turned.key: number for number, turned in enumerate(self._kept.turns)}

    def _read_old(self, generation: Generation) -> None:
        known = generation.known()
        kept = known.fields.get("import") if known else None
        if known is None or kept is None or generation.old is None:
            raise FileCorrupt(
                f"the archive of {generation.session_id} is damaged, or was not made by an import",
                hint=f"maestro verify {generation.session_id}",
            )
        self._kept = msgspec.convert(kept, Kept)
        self._runs = list(known.runs)
        self._last = id_order(generation.old.last_id)
        self._last_ms = self._last[0]
        self._first_ms = known.fields.get("created_ms")
        for line in generation.lines(layout.MESSAGES):
            metadata = _keys_in(line).metadata
            self.seen.update(metadata.external_ids if metadata else ())
        self._before_events = self._copy_events
        if self._kept.children != self._facts.children:
            self._is_changed = True
        if not self._is_dry:
            generation.keep_all()

    def take(self, steps: Iterator[Step]) -> None:
        """Take the conversation, from its beginning."""
        takers: dict[type, Callable[[Any], None]] = {
            Asked: self._asked,
            Said: self._heard,
            Used: self._used,
            Ended: self._ended,
            Noted: self._noted,
            Broken: self._damaged,
        }
        for step in steps:
            takers[type(step)](step)

    def _damaged(self, broken: Broken) -> None:
        self.broken_count += 1
        if len(self.broken) < BROKEN_MAX:
            self.broken.append(broken)

    def _noted(self, noted: Noted) -> None:
        self._notes[noted.name] = noted.value

    def _begin(self, at_ms: int) -> None:
        if self._first_ms is None:
            self._first_ms = at_ms
            self._last = (at_ms, 0)  # that the session began is told under the first id of its time

    def _id(self, at_ms: int) -> str:
        """Return the next id: messages and events have theirs in one order, whatever clocks said."""
        ms, number = self._last
        self._last = (at_ms, 0) if at_ms > ms else (ms, number + 1)
        self._last_ms = max(self._last_ms, at_ms)
        return f"{self._last[0]}-{self._last[1]}"

    def _asked(self, asked: Asked) -> None:
        self._close()
        key = asked.turn or asked.key
        place = self._places.get(key)
        self._begin(asked.at_ms)
        if place is not None:
            self._turn = turn = Turn(place + 1, key, asked.at_ms)
            turn.resume(self._runs[place], self._kept.turns[place])
        else:
            self._turn = turn = Turn(len(self._kept.turns) + 1, key, asked.at_ms)
            self._places[key] = len(self._kept.turns)
            self._kept.turns.append(turn.turned)
            turn.prompt = asked.text
            turn.is_changed = self._is_changed = True
            self._happen("run.started", asked.at_ms, {"run": turn.id, "tool": self._conversation.tool})
        if asked.key not in self.seen:
            turn.prompt_id = self._message([asked.key], asked.at_ms, "user", asked.text, {})

    def _heard(self, said: Said) -> None:
        turn = self._turn
        self._begin(said.at_ms)
        is_new = not all(key in self.seen for key in said.keys)
        if turn is not None:
            turn.last_ms = max(turn.last_ms, said.at_ms)
            if said.role == "assistant":
                turn.has_answer = True
                turn.model = said.model or turn.model
                turn.status = turn.error = None
                if said.text and is_new:
                    turn.text = said.text
        if not is_new:
            return
        parts: dict[str, Any] = {}
        if said.calls:
            parts["tool_calls"] = [_shallow(call) for call in said.calls]
        if said.results:
            parts["tool_results"] = said.results
        if turn is not None:
            turn.is_changed = True
            for call in said.calls or ():
                done = activity_of(call)
                row = {"run": turn.id, "kind": done.kind, "name": done.name, "summary": done.summary}
                self._happen("run.activity", said.at_ms, row)
        self._message(said.keys, said.at_ms, said.role, said.text, parts, said.model)

    def _message(
        self, keys: list[str], at_ms: int, role: str, text: str, parts: dict[str, Any], model: str | None = None
    ) -> str:
        self.seen.update(keys)
        self._kept.messages += 1
        self._is_changed = True
        entry_id = self._id(at_ms)
        turn = self._turn
        metadata: dict[str, Any] = {"tool": self._conversation.tool, "external_ids": keys}
        if turn is not None:
            metadata = {"run": turn.id, **metadata}
        if model:
            metadata["model"] = model
        row = {"id": entry_id, "role": role, "content": text, "timestamp": iso(self._last[0]), "metadata": metadata}
        row |= parts
        if turn is not None and turn.prompt_id:
            row["parent_id"] = turn.prompt_id
        self._said.append(row)
        if len(self._said) >= _BATCH:
            self._flush()
        return entry_id

    def _happen(self, kind: str, at_ms: int, data: dict[str, Any]) -> None:
        entry_id = self._id(at_ms)
        self._happened.append({"id": entry_id, "ts": iso(self._last[0]), "type": kind, "data": data})

    def _flush(self) -> None:
        if self._is_dry:
            self._said, self._happened = [], []
            return
        generation = self._generation
        if self._said:
            generation.append(layout.MESSAGES, layout.json_lines(self._said))
        if self._happened:
            if self._before_events is not None:
                self._before_events()
            generation.append(layout.EVENTS, layout.json_lines(self._happened), anew=True)
            done: dict[str, list[dict[str, Any]]] = {}
            for event in self._happened:
                if event["type"] == "run.activity":
                    data = {name: value for name, value in event["data"].items() if name != "run"}
                    done.setdefault(event["data"]["run"], []).append({"id": event["id"], "ts": event["ts"], **data})
            for run_id, lines in done.items():
                generation.append(layout.run_path(run_id, "activity.jsonl"), layout.json_lines(lines))
        self._said, self._happened = [], []

    def _copy_events(self) -> None:
        """Take over what happened before, but for the end: it is said where the session ends now."""
        self._before_events = None
        waiting: bytes | None = None
        for line in self._generation.lines(layout.EVENTS):
            if waiting:
                self._generation.append(layout.EVENTS, waiting, anew=True)
            waiting = line
        if waiting and _event_in(waiting).type != "session.finalized":
            self._generation.append(layout.EVENTS, waiting, anew=True)

    def _used(self, used: Used) -> None:
        if self._turn is not None and used.key not in self._counted:
            self._turn.used[used.key] = used
            self._turn.model = self._turn.model or used.model
        elif self._turn is None:
            self._loose[used.key] = used

    def _ended(self, ended: Ended) -> None:
        if self._turn is not None:
            self._turn.last_ms = max(self._turn.last_ms, ended.at_ms)
            self._turn.status, self._turn.error = ended.status, ended.error

    def _close(self) -> None:
        """Write the run of the present turn, if there is something new in it."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        self._counted.update(turn.used)
        place = int(turn.id) - 1
        if not turn.settle() and (turn.status is None or turn.before is None or turn.before.status == turn.status):
            return
        self._is_changed = True
        self._kept.turns[place] = turn.turned
        prompt = turn.prompt.encode("utf-8", "replace") if turn.prompt is not None else None
        output = turn.text.encode("utf-8", "replace") if turn.text else None
        ref = OutputRef("output.txt", len(output), layout.sha256(output)) if output else None
        digest = layout.sha256(prompt) if prompt is not None else None
        run = turn.run(self._conversation.tool, self._conversation.external_id, self._facts.user, ref, digest)
        self._runs[place : place + 1] = [run]
        ended = {"run": run.id, "status": run.status, "tool": run.tool, "finished_at": run.finished_at}
        ended |= {"output_ref": msgspec.to_builtins(ref)} if ref else {}
        ended |= {"error": run.error} if run.error else {}
        if not self._is_dry:
            self._put_run(run, prompt, output)
        self._happen("run.finished", turn.last_ms, ended | {"usage": msgspec.to_builtins(run.usage)})

    def _put_run(self, run: Run, prompt: bytes | None, output: bytes | None) -> None:
        generation = self._generation
        generation.put(layout.run_path(run.id, "meta.json"), layout.pretty(run))
        if prompt is not None:
            empty = layout.pretty([])
            generation.put_lasting(layout.run_path(run.id, "sent_context.json"), empty, layout.sha256(empty))
            generation.put_lasting(layout.run_path(run.id, "prompt.txt"), prompt, layout.sha256(prompt))
        if output:
            generation.put(layout.run_path(run.id, "output.txt"), output)
            chunk = {"id": self._id(0), "run": run.id, "size": len(output), "anew": True}
            generation.append(layout.CHUNKS, layout.json_line(chunk))

    def finish(self) -> Written:
        """Put the generation in place, unless nothing is new."""
        self._close()
        loose = sum((one.tokens for one in self._loose.values()), Tokens())
        tokens = sum((turned.tokens for turned in self._kept.turns), loose)
        costs = [turned.cost for turned in self._kept.turns if turned.cost is not None]
        cost = round(fsum(costs), 9) if costs else None
        is_there = self._generation.old is not None
        has_any = self._kept.messages > 0
        status = ("updated" if self._is_changed else "unchanged") if is_there else "new"
        session = None
        if has_any and (self._is_changed or not is_there):
            session = self._session(tokens, cost)
            if not self._is_dry:
                self._commit(session)
        return Written(
            session_id=self._generation.session_id,
            status=status,
            messages=self._kept.messages,
            runs=len(self._runs),
            tokens=tokens,
            cost=cost,
            session=session,
            broken=self.broken,
            broken_count=self.broken_count,
        )

    def _session(self, tokens: Tokens, cost: float | None) -> Session:
        one, facts = self._conversation, self._facts
        told: dict[str, Any] = {"source": one.tool, "external_id": one.external_id, "path": one.path}
        told |= {name: self._notes[name] for name in ("title", "version", "branch") if self._notes.get(name)}
        told |= {"parent": facts.parent} if facts.parent else {}
        told |= {"tool_call_id": one.call_id} if one.call_id else {}
        told |= {"children": facts.children} if facts.children else {}
        told |= {"tokens": msgspec.to_builtins(tokens)} | ({"cost": cost} if cost is not None else {})
        ended = iso(self._last_ms)
        success = sum(run.status == "success" for run in self._runs)
        return Session(
            id=self._generation.session_id,
            slug=slug_of(self._generation.session_id),
            state=str(SessionState.FINALIZED),
            tool_active=one.tool,
            created_at=iso(self._first_ms or 0),
            updated_at=ended,
            finalized_at=ended,
            counters=Counters(run_seq=len(self._runs)),
            stats=Stats(len(self._runs), success, sum(run.status == "error" for run in self._runs)),
            session_id=self._generation.session_id,
            user_id=facts.user,
            status="",
            last_activity=ended,
            project_context={"import": told},
            working_directory=one.cwd or facts.project,
            preferences={},
            ttl_seconds=facts.ttl_seconds,
        )

    def _commit(self, session: Session) -> None:
        generation = self._generation
        self._happen("session.finalized", self._last_ms, {})
        last_id = self._happened[-1]["id"]
        self._flush()
        newest = last_output(self._runs)
        active = {"items": []} | ({"last_output_ref": newest["run_id"]} if newest else {})
        generation.put(layout.ACTIVE, layout.pretty(active))
        if newest:
            generation.put(layout.LAST_OUTPUT, layout.pretty(newest))
        generation.put(layout.RELEVANT, layout.pretty({"items": []}))
        self._kept.children = self._facts.children
        fields = {
            "last_id": last_id,
            "created_ms": self._first_ms or 0,
            "revisions": {},
            "set_at": {},
            "project": self._facts.project,
            "import": msgspec.to_builtins(self._kept),
        }
        generation.put(layout.RECORD, layout.encode_record(layout.Record(fields=fields, runs=self._runs)))
        document = msgspec.to_builtins(session)
        del document["status"]
        generation.put(layout.SESSION, layout.pretty(document))
        # One that is there without saying what it is, is damaged: what it has goes to the trash, nothing is lost.
        generation.commit(last_id=last_id, written_at=self._facts.now, keep_replaced=generation.old is None)
