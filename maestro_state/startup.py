"""Have the programs of Maestro find their own modules, whatever a shell says.

What PYTHONPATH names, and the current folder, come before the standard library: beside somebody's `json.py` or
`redis.py` no program of ours would start. Each calls this before it imports anything else; a module that is started
as a process of its own is started by this one: `python -P -m maestro_state.startup MODULE`.
A place without installed packages is not searched at all: libraries import what they can do without, too, and would
run somebody's `opentelemetry.py` for it.
"""

from __future__ import annotations

import os
import sys

#: Where this package is, and the other two of a checkout: a Maestro that is on PYTHONPATH goes on being that one.
_HOME = __file__.rpartition("/maestro_state/")[0]
_OWN = (_HOME, f"{_HOME}/cli", f"{_HOME}/workers")
#: The end of the first place of the standard library, which Python puts behind what it was told.
_LIBRARY = f"python{sys.version_info.major}{sys.version_info.minor}.zip"


def own_modules_first() -> None:
    """Move packages that the shell put before the standard library behind everything that is installed."""
    library = next((at for at, place in enumerate(sys.path) if place.endswith(_LIBRARY)), 0)
    told = sys.path[:library]
    own = [place for place in told if place in _OWN]
    named = told if sys.flags.safe_path else told[1:]  # the first is the program's own folder, or the current one
    sys.path[:] = [*own, *sys.path[library:], *(place for place in named if place not in own and _has_packages(place))]


def _has_packages(place: str) -> bool:
    """Tell whether packages were installed into a place, or it is an archive of modules."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(place))
    except NotADirectoryError:
        return True
    except OSError:
        return False


def command(module: str) -> list[str]:
    """Return the command line that starts one of our modules in an interpreter of its own."""
    # -P: the current folder must not come before what is installed, not even for the lines below.
    return [sys.executable, "-P", "-m", "maestro_state.startup", module]


if __name__ == "__main__":
    own_modules_first()
    from runpy import run_module

    run_module(sys.argv.pop(1), run_name="__main__")
