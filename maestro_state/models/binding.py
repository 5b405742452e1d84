"""Keys of other frameworks that are bound to sessions: what they are called, and how one is spelled as a reference."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import msgspec

from maestro_state.errors import InvalidValue

#: The frameworks whose keys can be bound, as references name them; `record` is our own.
KINDS = ("langgraph", "openai", "adk", "claude", "record")

_ESCAPED = {"%": "%25", "/": "%2F"}
#: Letters of the key that the session's name shows, and of the digest that keeps names apart.
_SHOWN, _DIGEST = 32, 10


class Bound(msgspec.Struct, frozen=True):
    """What a session is bound to; as a reference it is `kind:key`."""

    kind: str
    key: str

    @classmethod
    def of(cls, kind: str, key: str) -> Bound:
        """Check a key: it is only data, of any length and script, but it must be text."""
        if kind not in KINDS:
            raise InvalidValue(
                f"'{kind[:40]}' is no framework that keys are bound for", hint=f"one of {', '.join(KINDS)}"
            )
        if not isinstance(key, str):
            raise InvalidValue(f"the key of a session of {kind} must be text, not {type(key).__name__}")
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise InvalidValue(f"the key of a session of {kind} is not valid Unicode text") from error
        return cls(kind, key)

    @classmethod
    def in_reference(cls, ref: str) -> Bound | None:
        """Return what a reference of the form `kind:key` means; None for every other reference."""
        kind, colon, key = ref.partition(":")
        return cls.of(kind, key) if colon and kind in KINDS else None

    @property
    def digest(self) -> str:
        """What stands for the key where its letters and its length would matter."""
        import hashlib  # commands that list sessions import this module, and not the 5 ms of that one

        return hashlib.sha256(f"{self.kind}:{self.key}".encode()).hexdigest()

    @property
    def slug(self) -> str:
        """The name of sessions bound to this: what can be read of the key, and what keeps it apart from others."""
        folded = unicodedata.normalize("NFKD", self.key[: 4 * _SHOWN]).encode("ascii", "ignore").decode().lower()
        shown = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")[:_SHOWN].strip("-")
        return "-".join(filter(None, (self.kind, shown, self.digest[:_DIGEST])))

    def document(self) -> dict[str, str]:
        """Return it as lists print it."""
        return {"kind": self.kind, "key": self.key}


#: Reads kind and key as the record keeps them.
pair_of = msgspec.json.Decoder(tuple[str, str]).decode


def stored(bound: Bound) -> str:
    """Write it as the record keeps it."""
    return msgspec.json.encode((bound.kind, bound.key)).decode()


def from_document(value: Any) -> Bound | None:
    """Read what an archive says, which anybody may have written; what makes no sense is nothing."""
    if not isinstance(value, dict):
        return None
    kind, key = value.get("kind"), value.get("key")
    return Bound(kind, key) if kind in KINDS and isinstance(key, str) else None


def joined(*parts: str) -> str:
    """Write several parts as one key, `app/user/id`; no two lists of parts are the same key."""
    return "/".join("".join(_ESCAPED.get(char, char) for char in part) for part in parts)


def parts_of(key: str) -> list[str]:
    """Return the parts that `joined` wrote."""
    parts = key.split("/")
    return [part.replace("%2F", "/").replace("%25", "%") for part in parts] if "%" in key else parts
