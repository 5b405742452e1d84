"""Telling a person that a run has ended: the terminal's bell, or a command of their own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from maestro_state.models.run import Run

notify_option = click.option(
    "--notify", is_flag=True, help="Ring the bell when a run ends, or call the command of MAESTRO_NOTIFY."
)

#: Seconds that the command may take.
_TIMEOUT_S = 10.0


def tell(command: str | None, run: Run) -> None:
    """Call the person's command with a few words as its last argument and the run as JSON on its standard input."""
    if command is None:
        if sys.stderr.isatty():
            sys.stderr.write("\a")
            sys.stderr.flush()
        return
    import shlex
    import subprocess

    import msgspec

    from maestro_cli import output

    try:
        words = [*shlex.split(command), output.safe(f"run {run.id} of {run.tool}: {run.status}")]
        subprocess.run(words, input=msgspec.json.encode(run), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=_TIMEOUT_S, check=True)  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        output.warning(f"MAESTRO_NOTIFY could not be told: {reason}")
