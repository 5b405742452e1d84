"""Have the programs of Maestro find their own modules, whatever a shell says.

What PYTHONPATH names, and the current folder, come before the standard library: beside somebody's `json.py` or
`redis.py` no program of ours would start. Each calls this before it imports anything else.
"""

from __future__ import annotations

import sys

#: Where this package is: a Maestro that is itself on PYTHONPATH goes on being that one.
_HOME = __file__.rpartition("/maestro_state/")[0]
#: The end of the first place of the standard library, which Python puts behind what it was told.
_LIBRARY = f"python{sys.version_info.major}{sys.version_info.minor}.zip"


def own_modules_first() -> None:
    """Move what the shell put before the standard library behind everything that is installed."""
    library = next((at for at, place in enumerate(sys.path) if place.endswith(_LIBRARY)), 0)
    told = sys.path[:library]
    own = [place for place in told if place.startswith(_HOME)]
    sys.path[:] = [*own, *sys.path[library:], *(place for place in told if place not in own)]
