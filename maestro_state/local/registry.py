"""Which projects this user has: a file for each in the user's own state folder, written when one is begun or used.

For those who ask about all of them. What is not there any more is passed over; nothing is believed of a project because
it is in here but that it was one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from maestro_state.fs.opening import replace_file
from maestro_state.fs.private import open_private_folder, read_private, state_home
from maestro_state.local.checkouts import is_begun


def remember(root: str, environment: Mapping[str, str]) -> None:
    """Note that a folder is a project. Costs a stat when it is noted already; without a place to note it, nothing."""
    place = _place(environment)
    if place is None or os.path.exists(os.path.join(place, name := _name(root))):
        return
    try:
        folder = open_private_folder(place)
        try:
            replace_file(folder, name, os.fsencode(root), durable=False)
        finally:
            os.close(folder)
    except OSError:
        return


def projects(environment: Mapping[str, str]) -> list[str]:
    """Return the top folders of this user's projects that are there."""
    place = _place(environment)
    if place is None or not os.path.isdir(place):
        return []
    try:
        folder = open_private_folder(place)
    except OSError:
        return []
    try:
        found = {root for name in os.listdir(folder) if (root := _read(folder, name))}
    finally:
        os.close(folder)
    return sorted(root for root in found if is_begun(root) and os.stat(root).st_uid == os.geteuid())


def _read(folder: int, name: str) -> str | None:
    try:
        root = os.fsdecode(read_private(folder, name) or b"")
    except OSError:
        return None
    return root if os.path.isabs(root) and "\0" not in root and _name(root) == name else None


def _place(environment: Mapping[str, str]) -> str | None:
    home = state_home(environment)
    return None if home is None else os.path.join(home, "maestro", "projects")


def _name(root: str) -> str:
    from hashlib import sha256

    return sha256(os.fsencode(root)).hexdigest()[:32]
