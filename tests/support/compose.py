"""Read docker-compose.yml as `docker compose config` would, without Docker: variables, merges, and the shape of it all.

The schema is the part of the Compose Specification that the file uses, closed everywhere: a key that is misspelled or
in the wrong place is an error here, as it is there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import yaml

FILE = Path(__file__).parents[2] / "docker-compose.yml"

_DURATION = {"type": "string", "pattern": r"^(\d+(h|m|s|ms|us))+$"}
_STRINGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_NAME = "^[a-zA-Z0-9._-]+$"
_HEALTH = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "disable": {"type": "boolean"},
        "test": {"type": "array", "prefixItems": [{"enum": ["CMD", "CMD-SHELL", "NONE"]}], "items": {"type": "string"}},
        "interval": _DURATION,
        "timeout": _DURATION,
        "start_period": _DURATION,
        "retries": {"type": "number"},
    },
}
_DEPENDS = {
    "type": "object",
    "patternProperties": {
        _NAME: {
            "type": "object",
            "additionalProperties": False,
            "required": ["condition"],
            "properties": {
                "condition": {
                    "enum": ["service_started", "service_healthy", "service_completed_successfully"],
                },
            },
        }
    },
    "additionalProperties": False,
}
_SERVICE = {
    "type": "object",
    "additionalProperties": False,
    "anyOf": [{"required": ["image"]}, {"required": ["build"]}],
    "properties": {
        "image": {"type": "string", "pattern": r"^[a-z0-9./_-]+(:[\w.-]+)?$"},
        "build": {"type": "string"},
        "command": _WORDS,
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "read_only": {"type": "boolean"},
        "tmpfs": _STRINGS,
        "cap_drop": _STRINGS,
        "security_opt": _STRINGS,
        "environment": {
            "type": "object",
            "patternProperties": {"^[A-Z][A-Z0-9_]*$": {"type": ["string", "number"]}},
            "additionalProperties": False,
        },
        "depends_on": _DEPENDS,
        "healthcheck": _HEALTH,
        "stop_grace_period": _DURATION,
        "ports": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^(\d{1,3}(\.\d{1,3}){3}:)?\d+:\d+$"},
            "uniqueItems": True,
        },
        "volumes": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[\w./-]+:/[\w/.-]+(:ro)?$"},
            "uniqueItems": True,
        },
    },
}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "required": ["services"],
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "patternProperties": {_NAME: _SERVICE}, "additionalProperties": False},
        "volumes": {
            "type": "object",
            "patternProperties": {_NAME: {"type": ["object", "null"]}},
            "additionalProperties": False,
        },
    },
}

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<how>:-|:\?)(?P<rest>[^}]*))?\}")


class MissingVariableError(Exception):
    """A variable that the file demands is not set."""


def interpolate(node: Any, variables: dict[str, str]) -> Any:
    """Put variables into every text: `${A}`, `${A:-default}`, and `${A:?reason}` for one that must be there."""
    if isinstance(node, dict):
        return {name: interpolate(value, variables) for name, value in node.items()}
    if isinstance(node, list):
        return [interpolate(value, variables) for value in node]
    return _VARIABLE.sub(lambda found: _value(found, variables), node) if isinstance(node, str) else node


def _value(found: re.Match[str], variables: dict[str, str]) -> str:
    given = variables.get(found["name"], "")
    if given or found["how"] is None:
        return given
    if found["how"] == ":?":
        raise MissingVariableError(found["name"])
    return found["rest"]


def load(variables: dict[str, str]) -> dict[str, Any]:
    """Return the file with its variables in; raise when its shape is not that of a compose file."""
    document: dict[str, Any] = interpolate(yaml.safe_load(FILE.read_text(encoding="utf-8")), variables)
    check(document)
    return document


def check(document: dict[str, Any]) -> None:
    """Raise when a document is not a compose file, or names something that it does not define."""
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    for name, service in document["services"].items():
        for other in service.get("depends_on", {}):
            if other not in document["services"]:
                raise jsonschema.ValidationError(f"{name} depends on {other}, which is not there")
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source[0] not in "./" and source not in document["volumes"]:
                raise jsonschema.ValidationError(f"{name} mounts {source}, which is not there")
