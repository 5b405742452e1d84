"""A terminal in a discussion, as a process: `python -m tests.support.discuss_terminal PROJECT ID NAME COUNT`.

Prints a line for each thing the server took, so that what it knew is known after it was killed. `replay` as NAME
replays the discussion instead.
"""

from __future__ import annotations

import sys

from maestro_state import Maestro


def main(project: str, discussion_id: str, name: str, count: str) -> None:
    """Say numbered things, or replay."""
    with Maestro(project) as maestro:
        if name == "replay":
            print(maestro.discussions.replay(discussion_id).result, flush=True)
            return
        for number in range(int(count)):
            maestro.discussions.say(f"{name}:{number}", discussion_id)
            print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
