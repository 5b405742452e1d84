"""Shapes of sessions on disk."""

from __future__ import annotations

import msgspec

from maestro_state.mirror.leaks import Leak
from maestro_state.mirror.verify import Damage


class Verified(msgspec.Struct, frozen=True, omit_defaults=True):
    """What verify found."""

    ok: bool
    checked: int
    damaged: list[Damage]
    removed: list[str]
    secrets: list[Leak] | None = None
