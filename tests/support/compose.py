"""Read docker-compose.yml as `docker compose config` would, without Docker: variables, merges, and the shape of it all.

The schema is that of the Compose Specification, as check-jsonschema brings it.
"""

from __future__ import annotations

import json
import re
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import yaml

FILE = Path(__file__).parents[2] / "docker-compose.yml"

SCHEMA = json.loads((resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<how>:-|:\?|:\+)(?P<rest>[^}]*))?\}")


class MissingVariableError(Exception):
    """A variable that the file demands is not set."""


def interpolate(node: Any, variables: dict[str, str]) -> Any:
    """Put variables into every text: `${A}`, `${A:-default}`, `${A:+instead}`, and `${A:?reason}` where it must be."""
    if isinstance(node, dict):
        return {name: interpolate(value, variables) for name, value in node.items()}
    if isinstance(node, list):
        return [interpolate(value, variables) for value in node]
    return _VARIABLE.sub(lambda found: _value(found, variables), node) if isinstance(node, str) else node


def _value(found: re.Match[str], variables: dict[str, str]) -> str:
    given = variables.get(found["name"], "")
    if found["how"] == ":+":
        return found["rest"] if given else ""
    if given or found["how"] is None:
        return given
    if found["how"] == ":?":
        raise MissingVariableError(found["name"])
    return found["rest"]


def load(variables: dict[str, str]) -> dict[str, Any]:
    """Return the file with its variables in; raise when its shape is not that of a compose file.

    A variable of a container or a build without a value is what it is in .env, and is not there where it is not set.
    """
    document: dict[str, Any] = interpolate(yaml.safe_load(FILE.read_text(encoding="utf-8")), variables)
    check(document)
    for service in document["services"].values():
        service["environment"] = _resolved(service.get("environment", {}), variables)
        if "args" in service.get("build", {}):
            service["build"]["args"] = _resolved(service["build"]["args"], variables)
        if isinstance(service.get("command"), str):
            service["command"] = shlex.split(service["command"])
    return document


def _resolved(names: dict[str, Any], variables: dict[str, str]) -> dict[str, str]:
    found = {name: variables.get(name) if value is None else str(value) for name, value in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def check(document: dict[str, Any]) -> None:
    """Raise when a document is not a compose file, or names something that it does not define."""
    jsonschema.validators.validator_for(SCHEMA)(SCHEMA).validate(document)
    for name, service in document["services"].items():
        mounted = [volume.partition(":")[0] for volume in service.get("volumes", [])]
        for kind, wanted in (
            ("services", list(service.get("depends_on", {}))),
            ("secrets", service.get("secrets", [])),
            ("volumes", [source for source in mounted if source[0] not in "./"]),
        ):
            for other in wanted:
                if other not in document.get(kind, {}):
                    raise jsonschema.ValidationError(f"{name} names {other} of the {kind}, which is not there")
