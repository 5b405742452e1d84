"""The AI tools Maestro knows, as data, and how to read what they print.

    tool = resolve("claude")                  # or a whole command line: resolve("sort -u")
    tool.argv(options)                        # what to execute; the prompt goes to its stdin
    tool.environment(os.environ, passed=())   # what it may see of the environment
    parser = tool.parser()                    # parser.feed(stdout bytes) → texts, parser.end(exit code) → Outcome

Starts no program itself. Importing this costs almost nothing: data and parsers are imported when asked for.
"""

from __future__ import annotations

from maestro_state.tools.conversations import check_continues
from maestro_state.tools.options import MODES, Mode, check_no_secret, check_options, combined, options_of
from maestro_state.tools.outcome import Outcome, Parser, delta
from maestro_state.tools.tool import Tool, check_command, names, resolve, safe_environment, stored

__all__ = [
    "MODES", "Mode", "Outcome", "Parser", "Tool", "check_command", "check_continues", "check_no_secret",
    "check_options", "combined", "delta", "names",
    "options_of", "resolve", "safe_environment", "stored",
]  # fmt: skip
