"""How an extra is added to the Maestro that runs here: by the means, and from the place, that it was installed by."""

from __future__ import annotations

import os
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

import msgspec

_NAME = "maestro-state"


def install_command(extra: str) -> str:
    """Return a command that can be typed as it is: what came from a checkout comes from there again."""
    url, is_editable = _origin()
    parts = urlsplit(url)
    source = unquote(parts.path) if parts.scheme == "file" else _NAME
    wanted = shlex.quote(f"{source}[{extra}]")
    if f"{os.sep}pipx{os.sep}venvs{os.sep}" in sys.prefix:
        return f"pipx install --force {wanted}"
    return f"{_pip()} install {'-e ' if is_editable else ''}{wanted}"


def _origin() -> tuple[str, bool]:
    """Return the URL that Maestro was installed from, empty where it came from an index, and whether it is linked."""
    try:
        noted = msgspec.json.decode(distribution(_NAME).read_text("direct_url.json") or "{}")
        return noted.get("url", ""), bool(noted.get("dir_info", {}).get("editable"))
    except (PackageNotFoundError, msgspec.DecodeError, AttributeError):
        return "", False


def _pip() -> str:
    """Name the pip of this environment, by its path where typing `pip` would start another one."""
    import shutil

    own = os.path.join(os.path.dirname(sys.executable), "pip")
    typed = shutil.which("pip")
    return shlex.quote(own) if os.path.exists(own) and typed != own else "pip"
