"""Pages of a list: as many rows as were asked for, and the cursor of those after them."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from maestro_state.errors import InvalidValue

Row = TypeVar("Row")
#: Where a row stands in its list: texts that only grow along it, or only shrink.
Place = tuple[str, ...]


def page(
    rows: Sequence[Row], query: Any, place: Callable[[Row], Place], *, is_falling: bool = False
) -> tuple[Sequence[Row], dict[str, str]]:
    """Return the rows behind the query's cursor, at most its limit, and `next` if there are more."""
    if query.cursor is not None:
        after = _read(query.cursor)
        rows = [row for row in rows if (place(row) < after if is_falling else place(row) > after)]
    if query.limit is None or len(rows) <= query.limit:
        return rows, {}
    shown = rows[: query.limit]
    text = "\n".join(place(shown[-1]))
    return shown, {"next": urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")}


def _read(cursor: str) -> Place:
    try:
        content = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        place = tuple(content.decode("utf-8", "surrogatepass").split("\n"))
    except ValueError:
        raise InvalidValue("no list gave this cursor", hint="begin without one") from None
    return place
