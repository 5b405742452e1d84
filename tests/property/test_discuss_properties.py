"""What holds for every transcript, every damage and every list of operations."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from maestro_state.discuss.legacy import final_of
from maestro_state.mirror.layouts.discussion import DiscussionFiles
from maestro_state.mirror.layouts.plan import PlanFiles
from maestro_state.models import strict_json
from maestro_state.models.contracts import InvalidOperations, validate
from maestro_state.models.discussion import (
    ERROR,
    Meta,
    TranscriptEvent,
    id_after,
    line_of,
    meta_document,
    micros_of,
    micros_of_id,
    read_meta,
    read_transcript,
    text_of,
)
from maestro_state.models.plan import NotApplicable, apply

# Half surrogate pairs are JSON and must come through; hypothesis leaves them out unless asked.
TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
MICROS = st.integers(min_value=0, max_value=4_000_000_000_000_000)
PAYLOADS = st.one_of(
    st.tuples(st.sampled_from(["user_message", "assistant_message"]), TEXT.map(lambda text: {"content": text})),
    st.tuples(st.just("final_json"), st.dictionaries(TEXT, VALUES, max_size=3)),
    st.tuples(st.just("error"), TEXT.map(lambda text: {"message": text})),
)
EVENTS = st.lists(
    st.builds(lambda micros, event: TranscriptEvent(text_of(micros), *event), MICROS, PAYLOADS), max_size=6
)


@given(EVENTS)
def test_any_events_come_back_from_their_lines(events: list[TranscriptEvent]):
    """Events written and read again are the same, each on one line of ASCII."""
    content = b"".join(line_of(event) for event in events)
    assert content.isascii()
    assert content.count(b"\n") == len(events)
    found = read_transcript(content)
    assert [strict_json.line([one.ts, one.type, one.payload]) for one in found.events] == [
        strict_json.line([one.ts, one.type, one.payload]) for one in events
    ]
    assert (found.torn, found.damaged) == (None, ())


@given(EVENTS.filter(bool), st.data())
def test_a_transcript_cut_anywhere_is_its_beginning(events: list[TranscriptEvent], data: st.DataObject):
    """Wherever a kill cut the file, every whole event before is there, and the rest is torn, never damaged."""
    content = b"".join(line_of(event) for event in events)
    at = data.draw(st.integers(0, len(content)))
    found = read_transcript(content[:at])
    assert found.events == read_transcript(content).events[: len(found.events)]
    assert found.damaged == ()
    whole = content[:at].count(b"\n")
    assert len(found.events) in (whole, whole + 1)
    assert (found.torn is None) == (at == len(b"".join(line_of(one) for one in found.events[:whole]))
                                    or len(found.events) == whole + 1)  # fmt: skip


@given(st.binary(max_size=300) | EVENTS.map(lambda events: b"\n".join(line_of(one)[::-1] for one in events)))
def test_no_bytes_break_the_reader(content: bytes):
    """Whatever a file holds, it is read or named; never anything else."""
    found = read_transcript(content)
    assert len(found.events) + len(found.damaged) + (found.torn is not None) == sum(
        bool(line.strip()) for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    )
    for reader in (strict_json.read, read_meta):
        with suppress(ValueError):
            reader(content)
    final_of(content.decode("utf-8", "replace"))


@given(VALUES)
def test_no_value_breaks_a_contract(value: object):
    """Any JSON is a valid final or refused by name, as a payload, as operations, as one operation's data."""
    for payload in (
        value,
        {"patch_operations": value},
        {"patch_operations": [value]},
        {"patch_operations": [{"op_type": "edit_task_fields", "data": {"task_id": "t", "fields": value}}]},
        {"patch_operations": [{"op_type": "add_task", "data": value}]},
    ):
        with suppress(InvalidOperations):
            validate("global", payload)


@given(MICROS)
def test_times_and_stream_ids_are_the_same_thing(micros: int):
    """A time of the transcript names the stream id it came from, and only that one."""
    assert micros_of(text_of(micros)) == micros
    assert micros_of_id(id_after(micros)) == micros


@given(TEXT, TEXT, MICROS)
def test_any_record_comes_back(prompt: str, reason: str, micros: int):
    """meta.json holds any text."""
    when = text_of(micros)
    meta = Meta(session_id="x", created_at=when, updated_at=when, initial_prompt=prompt, engine=reason)
    content = strict_json.page(meta_document(meta))
    assert strict_json.page(meta_document(read_meta(content))) == content


IDS = st.sampled_from(["a", "b", "c"])
NAMES = st.sampled_from(["A", "B"])
OPERATIONS = st.lists(
    st.one_of(
        st.builds(lambda i, n: ("add_track", {"track_id": i, "track_name": n}), IDS, NAMES),
        st.builds(lambda i, n, p: ("add_phase", {"phase_id": i, "phase_name": n, "track_id": p}), IDS, NAMES, IDS),
        st.builds(lambda i, n, p: ("add_task", {"task_id": i, "task_name": n, "phase_id": p}), IDS, NAMES, IDS),
        st.builds(lambda i, p: ("move_task", {"task_id": i, "target_phase_id": p}), IDS, IDS),
        st.builds(lambda i, s, p: ("move_task", {"task_id": i, "source_phase_id": s, "target_phase_id": p}),
                  IDS, IDS, IDS),
        st.builds(lambda i, f: ("edit_task_fields", {"task_id": i, "fields": f}), IDS,
                  st.dictionaries(st.sampled_from(["task_name", "n"]), NAMES, min_size=1)),
        st.builds(lambda w, k, i: (f"mark_{w}", {"item_type": k, "item_id": i}), st.sampled_from(["done", "todo"]),
                  st.sampled_from(["task", "phase", "track"]), IDS),
    ),
    max_size=8,
)  # fmt: skip
START = [
    ("add_track", {"track_id": "a", "track_name": "A"}),
    ("add_phase", {"phase_id": "a", "phase_name": "A", "track_id": "a"}),
    ("add_phase", {"phase_id": "b", "phase_name": "B", "track_id": "a"}),
    ("add_task", {"task_id": "a", "task_name": "A", "phase_id": "a"}),
]


def _operations(rows: list[tuple[str, dict[str, object]]]):
    return validate("global", {"patch_operations": [{"op_type": kind, "data": data} for kind, data in rows]})


@settings(max_examples=400)
@given(OPERATIONS, st.booleans())
def test_any_list_is_applied_whole_or_not_at_all_and_once(rows: list[tuple[str, dict[str, object]]], filled: bool):
    """Applying a list again changes nothing; a list that is refused leaves the plan as it was."""
    plan, _ = apply({"tracks": [], "phases": [], "tasks": []}, _operations(START if filled else []))
    before = json.dumps(plan)
    try:
        once, effects = apply(plan, _operations(rows))
    except NotApplicable:
        assert json.dumps(plan) == before
        return
    assert json.dumps(plan) == before
    assert any(effect.changed for effect in effects) or json.dumps(once) == before
    twice, again = apply(once, _operations(rows))
    assert json.dumps(twice) == json.dumps(once)
    assert not any(effect.changed for effect in again)


@settings(max_examples=25)
@given(EVENTS.filter(bool), st.data())
def test_a_torn_file_is_written_on_without_damage(tmp_path_factory, events: list[TranscriptEvent], data: st.DataObject):
    """After any cut, whoever appends next leaves a transcript without damage that has every whole event."""
    root: Path = tmp_path_factory.mktemp("torn")
    events = sorted(events, key=lambda event: event.ts)
    meta = Meta(session_id="x", created_at=events[0].ts, updated_at=events[-1].ts)
    files = DiscussionFiles(root)
    files.follow(meta, [])
    content = b"".join(line_of(event) for event in events)
    at = data.draw(st.integers(0, len(content)))
    path = root.joinpath("docs/maestro/sessions/discuss/x/transcript.jsonl")
    path.write_bytes(content[:at])
    whole = read_transcript(content[:at]).events
    files.record("x", 0, [(ERROR, {"message": "next"})])
    found = files.load("x").transcript
    assert (found.damaged, found.torn) == ((), None)
    assert found.events[: len(whole)] == whole
    assert found.events[-1].payload == {"message": "next"}


@settings(max_examples=25)
@given(OPERATIONS)
def test_plan_files_hold_what_was_applied(tmp_path_factory, rows: list[tuple[str, dict[str, object]]]):
    """What is written is what is read, and writing it again writes nothing."""
    root: Path = tmp_path_factory.mktemp("plan")
    with PlanFiles.hold(root) as files:
        plan, _ = apply(files.read(), _operations(START))
        with suppress(NotApplicable):
            plan, _ = apply(plan, _operations(rows))
        files.commit(files.changes(plan))
    with PlanFiles.hold(root) as files:
        assert strict_json.same(files.read(), plan)
        assert files.changes(plan) == {}
