"""Names, ids and references of sessions: what is allowed, and how one becomes another. Pure text."""

from __future__ import annotations

import re
import unicodedata

from maestro_state.errors import AmbiguousReference, InvalidName, SessionNotFound

#: Longest slug: with `--` and the suffix it stays well below what file systems take for a name.
SLUG_MAX = 64

_SESSION_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}--[a-z0-9]{6}", re.ASCII)
_STREAM_ID = re.compile(r"[0-9]{1,20}(-[0-9]{1,20})?", re.ASCII)


def slugify(name: str) -> str:
    """Turn a name into kebab-case, accents folded; refuse one with no letter or digit, or too long to be a name."""
    if any(unicodedata.category(char) == "Cc" for char in name):
        raise InvalidName("the name holds control characters", hint="use letters, digits and spaces")
    folded = unicodedata.normalize("NFKD", name[: SLUG_MAX * 16]).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")
    if not slug:
        raise InvalidName(f"the name {name[:40]!r} has no letter or digit", hint="maestro session start fix-login")
    if len(name) > SLUG_MAX * 4 or len(slug) > SLUG_MAX:
        raise InvalidName(f"the name has {len(name)} characters", hint=f"at most {SLUG_MAX} letters and digits")
    return slug


def session_slug(name: str) -> str:
    """Turn the name of a new session into its slug; refuse one that leads out of a folder."""
    if ".." in re.split(r"[/\\]", name):
        raise InvalidName(f"the name {name[:40]!r} is a path", hint="maestro session start fix-login")
    return slugify(name)


def is_session_id(text: str) -> bool:
    """Tell whether the text has the form of a session id, the only names that may become paths or keys."""
    return _SESSION_ID.fullmatch(text) is not None


def is_stream_id(text: str) -> bool:
    """Tell whether the text has the form of an event or message id."""
    return _STREAM_ID.fullmatch(text) is not None


def slug_of(session_id: str) -> str:
    """Return the slug half of an id."""
    return session_id.rsplit("--", 1)[0]


def pick(ref: str, ids: list[str]) -> str:
    """Find the one id that a full id, a slug or a suffix means; `ids` newest first, for `latest`."""
    if ref == "latest" and ids:
        return ids[0]
    found = [one for one in ids if ref in (one, slug_of(one), one.rsplit("--", 1)[-1])]
    if ref in found:
        return ref
    if len(found) > 1:
        raise AmbiguousReference(ref, sorted(found))
    if not found:
        raise SessionNotFound(ref[:80])
    return found[0]
