"""A question that is answered with yes or no, and that Ctrl-C leaves from the moment it is on the screen on."""

from __future__ import annotations

import os
import sys

import click

from maestro_cli.output import safe
from maestro_cli.screen.listening import await_typed


def confirmed(question: str) -> bool:
    """Ask a person; True for yes, and no is what a bare Enter means."""
    while True:
        sys.stdout.write(f"{safe(question)} [y/N]: ")
        sys.stdout.flush()
        answer = _typed_line().strip().lower()
        if answer in ("y", "yes"):
            return True
        if answer in ("", "n", "no"):
            return False
        sys.stdout.write("y for yes, n for no\n")


def _typed_line() -> str:
    """Return the next line; Ctrl-C is heard from the moment on in which the question is shown."""
    await_typed(0)
    line = os.read(0, 4096)
    if not line:
        raise click.Abort  # Ctrl-D, or the terminal is gone
    return line.decode(errors="replace")
