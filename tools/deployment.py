"""Write what docker-compose.yml and .env.example say of the settings: every one of them can be passed."""

from __future__ import annotations

import re
from pathlib import Path

from maestro_state.local.settings import PREFIX, RULES, TERMINAL, Rule

ROOT = Path(__file__).parent.parent
COMPOSE, EXAMPLE = ROOT / "docker-compose.yml", ROOT / ".env.example"
#: What the compose file says itself: addresses and places inside containers, and what several of its lines share.
SAID = frozenset({"redis_url", "archive_root", "secrets_file", "namespace", "log_level", "workers"})
_PART = re.compile(r"(?P<begin>(?P<indent> *)# settings:[^\n]*\n).*?(?P<end> *# /settings\n)", re.DOTALL)


def passed() -> dict[str, Rule]:
    """Return the settings that are handed on as they are set; those of one terminal mean nothing to a service."""
    return {name: rule for name, rule in RULES.items() if name not in SAID and rule.scope != TERMINAL}


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _environment(indent: str) -> str:
    return "".join(f"{indent}{_variable(name)}:\n" for name in passed())


def _example(_: str) -> str:
    lines = []
    for name, rule in passed().items():
        default = "" if callable(rule.default) or rule.default is None else str(rule.default)
        lines += [f"# {rule.meaning}", f"#{_variable(name)}={default.lower() if rule.kind == 'flag' else default}"]
    return "".join(f"{line}\n" for line in lines)


def expected() -> dict[Path, str]:
    """Return both files with what they should say."""
    found = {}
    for path, part in ((COMPOSE, _environment), (EXAMPLE, _example)):
        text = path.read_text(encoding="utf-8")
        write = lambda match, part=part: match["begin"] + part(match["indent"]) + match["end"]  # noqa: E731
        found[path], count = _PART.subn(write, text)
        assert count == 1, f"{path} has no part '# settings: …' to '# /settings'"
    return found
