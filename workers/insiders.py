"""What the embedded stack brings along: workers when they are needed, passes over the sessions, and the resident
process of the commands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from workers.crew import Crew
from workers.services import Keeper, ProcessService, program
from workers.sweeps import Sweeps

if TYPE_CHECKING:
    from workers.loop import Loop
    from workers.services import Part


def stack_parts(root: Path, loop: Loop, log: Callable[[str], None]) -> list[Part]:
    """Return what the supervisor of a project looks after."""
    parts: list[Part] = [Crew(root, loop, log), Sweeps(root, loop, log)]
    if sys.platform == "linux":  # elsewhere a command cannot tell whose process listens, and runs by itself
        parts.append(Keeper(ProcessService("resident", program("cli.resident", os.fspath(root))), log))
    return parts
