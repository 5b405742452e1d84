"""Names, ids and references of sessions: what is allowed, and how one becomes another. Pure text."""

from __future__ import annotations

import re
import unicodedata

from maestro_state.errors import AmbiguousReference, InvalidName, SessionNotFound

#: Longest slug: with `--` and the suffix it stays well below what file systems take for a name.
SLUG_MAX = 64

_SESSION_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}--[a-z0-9]{6}", re.ASCII)
_SUFFIX = re.compile(r"[a-z0-9]{6}", re.ASCII)
#: Longest slug in bytes, for letters that take several: what archives add to a name must still fit a file system.
_SLUG_BYTES = 160
#: Latin letters that are not written as one without an accent and the accent.
_UNACCENTED = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h"}
#: How many sessions are named that may have been meant.
_MOST_NEAR = 3
#: What a reference looks like that is sent to workers, and the token that names a parcel.
_SENT = re.compile(r"[a-z0-9][a-z0-9-]{0,79}", re.ASCII)
_TOKEN = re.compile(r"[0-9a-f]{32}", re.ASCII)
#: Of at most 19 digits: a server refuses numbers beyond 64 bits.
_STREAM_ID = re.compile(r"[0-9]{1,19}(-[0-9]{1,19})?", re.ASCII)


def _refuse_controls(name: str) -> None:
    if any(unicodedata.category(char) == "Cc" for char in name):
        raise InvalidName("the name holds control characters", hint="use letters, digits and spaces")


def slugify(name: str) -> str:
    """Turn a name into kebab-case, accents folded; refuse one with no letter or digit, or too long to be a name."""
    _refuse_controls(name)
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
    _refuse_controls(name)
    slug = _letters(name[: SLUG_MAX * 16])
    if not slug:
        raise InvalidName(f"the name {name[:40]!r} has no letter or digit", hint="maestro session start fix-login")
    if len(name) > SLUG_MAX * 4 or not _is_slug(slug):
        raise InvalidName(f"the name has {len(name)} characters", hint=f"at most {SLUG_MAX} letters and digits")
    return slug


def _letters(name: str) -> str:
    """Return a name in kebab-case: Latin letters without their accents, those of other scripts as they are, all small.

    The same text however it was typed: composed, and so that its own slug is itself.
    """
    parts: list[str] = []
    keeps_marks = False
    for char in unicodedata.normalize("NFKD", name).lower():
        kind = unicodedata.category(char)[0]
        if kind == "M":  # an accent, or a vowel sign that a letter of another script is nothing without
            parts.append(char if keeps_marks else "")
            continue
        is_letter = kind in "LN"
        is_latin = char.isascii() or unicodedata.name(char, "").startswith("LATIN")
        keeps_marks = is_letter and not is_latin
        parts.append(_UNACCENTED.get(char, char) if is_letter else "-")
    return unicodedata.normalize("NFC", re.sub("-+", "-", "".join(parts)).strip("-"))


def _is_slug(text: str) -> bool:
    """Tell whether a text with letters of other scripts is a slug in the one form it has."""
    return 0 < len(text) <= SLUG_MAX and len(text.encode(errors="replace")) <= _SLUG_BYTES and _letters(text) == text


def is_session_id(text: str) -> bool:
    """Tell whether the text has the form of a session id, the only names that may become paths or keys."""
    if text.isascii():
        return _SESSION_ID.fullmatch(text) is not None
    slug, _, suffix = text.rpartition("--")
    return _SUFFIX.fullmatch(suffix) is not None and _is_slug(slug)


def is_reference(text: str) -> bool:
    """Tell whether a text with letters of other scripts can mean a session: an id, or a slug."""
    return is_session_id(text) or _is_slug(text)


def is_sent_reference(text: str) -> bool:
    """Tell whether a text may be sent to workers as a reference: an id, a slug or a suffix."""
    return _SENT.fullmatch(text) is not None or is_reference(text)


def is_parcel_token(text: str) -> bool:
    """Tell whether the text has the form of the token that names an archive on its way."""
    return _TOKEN.fullmatch(text) is not None


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
        raise SessionNotFound(ref[:80], near=_near(ref, ids))
    return found[0]


def _near(ref: str, ids: list[str]) -> list[str]:
    """Return the ids that begin like a reference, else those whose name reads like it: a few."""
    from difflib import get_close_matches

    ref = ref.lower()[:80]
    if begun := [one for one in ids if ref and one.startswith(ref)]:
        return begun[:_MOST_NEAR]
    names = get_close_matches(ref, {slug_of(one) for one in ids}, _MOST_NEAR)
    return [one for name in names for one in ids if slug_of(one) == name][:_MOST_NEAR]


def one_line(text: str) -> str:
    """Write a path or label so that it stays on its line: control characters and the like escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
