"""`maestro serve`: sessions over HTTP. Documents, live events and a page, from one process for a project or a team.

One table of routes (`routes`) is what requests are matched by, what guards ask who may do what, and what the OpenAPI
document is made of. Requests go to the rooms of `AsyncMaestro`; there is no second path to the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maestro_state.serve.app import App
    from maestro_state.serve.options import Options


def build_app(options: Options | None = None, *, project: Any = None, **settings: Any) -> App:
    """Return the ASGI application; raise ImportError naming the extra where its packages are missing."""
    check_packages()
    from maestro_state.serve.app import App
    from maestro_state.serve.options import Options

    return App(options or Options(), project=project, **settings)


def check_packages() -> None:
    """Raise ImportError naming the extra where its packages are missing."""
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "markdown_it", "nh3", "pygments")):
        from maestro_state.local.extras import install_command

        raise ImportError(f"maestro serve needs the extra serve: {install_command('serve')}")
