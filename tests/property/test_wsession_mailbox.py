"""Whatever lies in a mailbox: it never raises, never loses a breadcrumb, and touches nothing else."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from maestro_state.errors import InvalidValue
from maestro_state.mirror.layouts.work import decode_breadcrumb, pretty
from maestro_state.mirror.mailbox import Mailbox
from maestro_state.models.work import Breadcrumb, breadcrumb_of, check_breadcrumb
from tests.support.work_samples import STAMP, crumb, post

ID = "0d5d1f5c-2f0b-4a3e-9b0f-1c2d3e4f5a6b"

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_fields = st.sampled_from([*Breadcrumb.__struct_fields__, "other"])
_almost = st.dictionaries(_fields, _values, max_size=8)
_names = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=30)


def _bytes(document: object) -> bytes:
    return msgspec.json.encode(document)


_contents = st.binary(max_size=60) | _almost.map(_bytes) | st.just(_bytes(crumb("x").document())[:-1])


@settings(max_examples=60)
@given(st.dictionaries(_names, _contents, max_size=8), st.integers(0, 3))
def test_every_file_is_a_letter_or_set_aside(files: dict[str, bytes], depth: int):
    """Of any files, each breadcrumb is offered once, each other one is set aside with a reason, byte for byte."""
    root = Path(tempfile.mkdtemp(prefix="m-"))
    try:
        good = post(root, (ID,), STAMP, _bytes(crumb("good").document()))
        wanted = {}
        for name, content in files.items():
            if not name.startswith(".") and len(name.encode()) < 200:
                wanted[post(root, (ID,), f"x{name}", content, depth).name] = content
        box = Mailbox(str(root), (ID,), limit=1000)
        deliveries = list(box.deliveries(1 << 62))
        assert "good" in [delivery.breadcrumb.breadcrumb_id for delivery in deliveries]
        assert len(deliveries) + len(box.rejected) == len(wanted) + 1
        assert all(one.reason for one in box.rejected)
        aside = root / "docs/sessions" / ID / "rejected"
        kept = [path.read_bytes() for path in aside.glob("*.json")] if aside.exists() else []
        taken = [path.read_bytes() for path in (root / "docs/sessions" / ID / "breadcrumbs").glob("*/*.json")]
        assert sorted(kept + taken) == sorted([*wanted.values(), good.read_bytes()])
        assert list(Mailbox(str(root), (ID,), limit=1000).deliveries(1 << 62)) == deliveries
    finally:
        shutil.rmtree(root)


@settings(max_examples=300)
@given(_almost)
def test_what_is_accepted_can_be_written_and_read_back(document: dict[str, object]):
    """A JSON object is refused with a reason, or is a breadcrumb that comes back from its own file as it was."""
    try:
        found = breadcrumb_of(document, timestamp=STAMP, breadcrumb_id="given")
    except InvalidValue as error:
        event(str(error)[:30])
        return
    assert check_breadcrumb(found) == found
    assert decode_breadcrumb(pretty(found.document()), "0", "x.json") == found
