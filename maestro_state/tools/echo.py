"""The built-in tool that needs no account: it says back what it was sent. For demos, tests and first steps.

Runs as a program of its own, with the standard library only.
"""

from __future__ import annotations

import os
import sys

#: Bytes copied at a time: small enough that followers see a long prompt come.
_PIECE = 65536


def main(arguments: list[str]) -> int:
    """Copy stdin to stdout, byte for byte, after a word of greeting."""
    if arguments == ["--version"]:
        sys.stdout.write("echo (built in)\n")
        return 0
    said = sys.stdout.buffer
    said.write(b"echo: ")
    last = b""
    while piece := os.read(0, _PIECE):
        said.write(piece)
        said.flush()
        last = piece
    if not last.endswith(b"\n"):
        said.write(b"\n")
    said.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
