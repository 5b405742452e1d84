"""What agents did on one thing: a track, a task under it, breadcrumbs applied once, and what they add up to."""

import os
import subprocess
import sys
from pathlib import Path

from maestro_state import Maestro

MAESTRO = str(Path(sys.executable).with_name("maestro"))

with Maestro() as maestro:
    track = maestro.work.start("work_track", related_entity={"track": "login"})
    task = maestro.work.start("work_task", parent=track.session_id, related_entity={"task": "T-17"})

    # Any program can add one: by command, by API, or as a file in the work session's folder.
    for tokens in ("1200", "300"):
        subprocess.run(
            [MAESTRO, "wsession", "breadcrumb", "add", "--prompt", "fix the login", "--response", "done",
             "--model", "opus", "--tokens-in", tokens, "--cost", "0.01"],
            env=os.environ | {"MAESTRO_COOKIE": task.session_id}, check=True, capture_output=True,
        )  # fmt: skip

    for cookie in (track.session_id, task.session_id):
        maestro.work.consume(cookie)
        maestro.work.consume(cookie)  # again: nothing is applied twice
    stats = maestro.work.stats(track.session_id)
    print("breadcrumbs:", stats.breadcrumbs)
    print("tokens:", stats.tokens["input"])
    print("cost:", stats.cost)
