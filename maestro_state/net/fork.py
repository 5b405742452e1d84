"""Keep a forked child off its parent's sockets.

Two processes reading one socket steal each other's replies. Whoever holds sockets registers here and lets go
of them in the child; the parent's stay open, because closing a descriptor does not end the conversation.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from maestro_state.net.interfaces import Holder

_holders: WeakSet[Holder] = WeakSet()


def let_go_in_child(holder: Holder) -> None:
    """Have `holder.forget()` called in every forked child."""
    _holders.add(holder)


def _after_fork() -> None:
    for holder in list(_holders):
        holder.forget()


os.register_at_fork(after_in_child=_after_fork)
