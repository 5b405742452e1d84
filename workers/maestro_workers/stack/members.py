"""What the embedded stack brings along: workers when they are needed, passes over the sessions, and the resident
process of the commands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from maestro_state.local.program import RESIDENT, command
from maestro_workers.stack.crew import Crew
from maestro_workers.stack.services import Keeper, ProcessService
from maestro_workers.stack.sweeps import Sweeps

if TYPE_CHECKING:
    from maestro_workers.stack.loop import Loop
    from maestro_workers.stack.services import Part


def stack_parts(root: Path, loop: Loop, log: Callable[[str], None]) -> list[Part]:
    """Return what the supervisor of a project looks after."""
    parts: list[Part] = [Crew(root, loop, log), Sweeps(root, loop, log)]
    if sys.platform == "linux":  # elsewhere a command cannot tell whose process listens, and runs by itself
        parts.append(Keeper(ProcessService(RESIDENT, command(RESIDENT, root)), log))
    return parts
