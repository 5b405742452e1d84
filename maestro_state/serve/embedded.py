"""`maestro serve` as the embedded stack keeps it: on this machine's own address, started again when it ends.

What it has to say goes to `.maestro/logs/serve.log`: who changed what, and why it could not start.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from maestro_state.errors import MaestroError
from maestro_state.local.listening import listen
from maestro_state.local.log_files import open_log_file
from maestro_state.local.logs import configure_logs, get_logger
from maestro_state.local.process import keep_private
from maestro_state.local.settings import load_settings
from maestro_state.serve import build_app
from maestro_state.serve.options import Options
from maestro_state.serve.server import serve

_MAX_LOG_BYTES = 10_000_000

log = get_logger("maestro.serve")


def main() -> int:
    """Serve the project named on the command line."""
    keep_private()
    parser = argparse.ArgumentParser(prog="maestro_state.serve.embedded", description="Serve a project over HTTP.")
    parser.add_argument("--project", type=Path, required=True, help="root folder of the project")
    root = parser.parse_args().project.resolve()
    os.chdir(root)
    with os.fdopen(open_log_file(root, "serve.log", _MAX_LOG_BYTES), "a", encoding="utf-8", buffering=1) as written:
        configure_logs("info", stream=written)
        try:
            settings = load_settings(root, os.environ)
            options = Options(port=settings.serve_port, require_auth=settings.serve_auth == "on", keeps_stack=True)
            line = listen(options.host, options.port)
            app = build_app(options, project=root)
            serve(app, line, lambda: log.info("serving", port=options.port, pid=os.getpid()))
        except MaestroError as error:
            log.error("not_served", reason=str(error), hint=error.hint)
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
