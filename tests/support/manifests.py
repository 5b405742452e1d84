"""Read the Kubernetes manifests as kustomize puts them together, without it: what a folder and its bases say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    """Return what a kustomization brings, with the config maps that it generates, without their hashes."""
    folder = FOLDER / name
    listing = yaml.safe_load((folder / "kustomization.yaml").read_text())
    found: list[dict[str, Any]] = []
    for resource in listing["resources"]:
        path = folder / resource
        if path.is_dir():
            found += documents(str(path.resolve().relative_to(FOLDER)))
        else:
            found += list(yaml.safe_load_all(path.read_text()))
    for one in listing.get("configMapGenerator", []):
        text = "".join((folder / file).read_text() for file in one["envs"])
        data = dict(re.findall(r"(?m)^([A-Z_]+)=(.*)$", text))
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": one["name"]}, "data": data})
    return found


def pods(found: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the pod of everything that runs some."""
    for document in found:
        if document["kind"] in ("Deployment", "StatefulSet"):
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all containers of a pod."""
    return [*pod.get("initContainers", []), *pod["containers"]]
