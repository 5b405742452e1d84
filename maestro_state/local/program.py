"""Be one of the programs that stand on this library: `python -P -m maestro_state.local.program NAME --project ROOT`.

Which there are is said by what is installed (entry points of the group `maestro_state.programs`), so that the library
names none of the packages above it. The new process looks that up: nobody waits for it, and it needs what the lookup
imports anyway.
"""

from __future__ import annotations

import os
import sys

from maestro_state.startup import own_modules_first

TYPE_CHECKING = False  # nothing is imported before our own modules come first, typing neither
if TYPE_CHECKING:
    from typing import NoReturn

GROUP = "maestro_state.programs"
#: The one that looks after a project's stack, the one that runs the commands handed to it, the one for agents, and the
#: one that serves HTTP.
SUPERVISOR, RESIDENT, AGENTS, SERVER = "supervisor", "resident", "agents", "server"


def command(name: str, root: str | os.PathLike[str]) -> list[str]:
    """Return the command line that starts a program for a project."""
    # -P: the current folder must not come before what is installed, not even for the lines below.
    return [sys.executable, "-P", "-m", "maestro_state.local.program", name, "--project", os.path.realpath(root)]


def main() -> NoReturn:
    """Run the program that the first word names with the words after it."""
    own_modules_first()
    from importlib.metadata import PackageNotFoundError, distribution

    name = sys.argv.pop(1)
    try:
        found = distribution("maestro-state").entry_points.select(group=GROUP, name=name)
    except PackageNotFoundError:
        found = ()  # type: ignore[assignment]  # found on the path without having been installed
    for program in found:
        sys.exit(program.load()())
    sys.exit(f"maestro: this installation has no program {name!r} (install it again)")


if __name__ == "__main__":
    main()
