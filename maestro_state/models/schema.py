"""The number of the form in which records are stored: sessions, work sessions, discussions and jobs carry it.

Older forms are read as they are; a newer one is refused before anything of it is read or changed, since it may mean
something else. Archives have a number of their own (`mirror/layouts/session.py`): they live longer than records.

1  no number. Messages may have their role and their content as two fields each, as first written
2  the number; a message's role is the name of its content
"""

from __future__ import annotations

from typing import Any

from maestro_state.errors import NewerFormat

#: What this program writes, and the newest that it reads.
SCHEMA = 2
#: The form of records that have no number.
FIRST = 1


def check(what: str, number: Any) -> None:
    """Raise NewerFormat for a record of a form that only newer programs know; None is a record without a number."""
    if number is not None and int(number) > SCHEMA:
        raise NewerFormat(what, int(number), SCHEMA)
