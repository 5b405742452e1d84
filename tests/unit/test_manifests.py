"""The Kubernetes manifests: names agree, nobody is root, secrets are references, probes work, and a stop drains."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml
from maestro_cli.command_table import COMMANDS
from maestro_workers.team import EXIT_S

from maestro_state.local.settings import VARIABLES
from tests.support import image
from tests.support.manifests import FOLDER, containers, documents, pods

ALL = sorted(path.parent.name for path in FOLDER.glob("*/kustomization.yaml"))
#: Secrets that whoever applies them has made, and the keys that must be in them; docs/team-server.md makes them.
SECRETS = {
    "maestro-server": {"worker-url", "terminal-url", "worker-password", "terminal-password", "admin-password"},
    "maestro-tools": {"tools.env"},
}
CLUSTER = documents("with-server")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
@pytest.mark.parametrize("name", ALL)
def test_kustomize_puts_them_together(name):
    """It finds everything that is named, and brings what our own reading of the files brings."""
    words = ["kubectl", "kustomize", str(FOLDER / name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    named = {
        (one["kind"], re.sub(r"-[a-z0-9]{10}$", "", one["metadata"]["name"])) for one in yaml.safe_load_all(done.stdout)
    }
    assert named == {(one["kind"], one["metadata"]["name"]) for one in documents(name)}


def test_names_agree():
    """Selectors find their pods; volumes, claims, config maps, secrets, keys and ports that are named are there."""
    claims = {one["metadata"]["name"] for one in CLUSTER if one["kind"] == "PersistentVolumeClaim"}
    maps = {one["metadata"]["name"]: one["data"] for one in CLUSTER if one["kind"] == "ConfigMap"}
    labels = {}
    for document in CLUSTER:
        if document["kind"] in ("Deployment", "StatefulSet"):
            labels[document["metadata"]["name"]] = document["spec"]["template"]["metadata"]["labels"]
            assert document["spec"]["selector"]["matchLabels"] == labels[document["metadata"]["name"]]
    for document in CLUSTER:
        if document["kind"] == "Service":
            assert document["spec"]["selector"] in labels.values()
            pod = dict(pods(CLUSTER))[document["metadata"]["name"]]
            ports = {port["name"] for one in pod["containers"] for port in one.get("ports", [])}
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= ports
    templates = {"data"}
    for _, pod in pods(CLUSTER):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for volume in volumes.values():
            assert volume.get("persistentVolumeClaim", {}).get("claimName") in claims | {None}
            assert volume.get("secret", {}).get("secretName") in {*SECRETS, None}
        for one in containers(pod):
            assert {mount["name"] for mount in one["volumeMounts"]} <= set(volumes) | templates
            assert {source["configMapRef"]["name"] for source in one.get("envFrom", [])} <= set(maps)
            for variable in one.get("env", []):
                source = variable.get("valueFrom", {})
                if ref := source.get("secretKeyRef"):
                    assert ref["key"] in SECRETS[ref["name"]]
                if ref := source.get("configMapKeyRef"):
                    assert ref["key"] in maps[ref["name"]]
    scaled = documents("autoscaling")[0]
    assert scaled["spec"]["scaleTargetRef"]["name"] in dict(pods(CLUSTER))
    assert "maestro_queue_length" in scaled["spec"]["triggers"][0]["metadata"]["query"]


@pytest.mark.parametrize("pod", [pod for _, pod in pods(CLUSTER)], ids=[name for name, _ in pods(CLUSTER)])
def test_pods_have_no_more_than_they_need(pod):
    """Not root; a read-only root, with every folder that is written mounted; no token of the cluster's, no secret."""
    assert pod["automountServiceAccountToken"] is False
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    for one in containers(pod):
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        for variable in one.get("env", []):
            if re.search("PASSWORD|AUTH|URL", variable["name"]):
                assert "secretKeyRef" in variable["valueFrom"]
        if one["image"].startswith("maestro:"):
            assert {"/tmp", "/home/maestro", "/archive"} <= {mount["mountPath"] for mount in one["volumeMounts"]}
            assert one["image"].partition(":")[2] in image.stages()
            assert one["args"][0] in COMMANDS


def test_the_server_keeps_one_file():
    """Append-only, and no snapshots: one that fails has every write refused."""
    (server,) = (containers(pod)[-1] for name, pod in pods(CLUSTER) if name == "maestro-redis")
    options = dict(zip(server["args"][::2], server["args"][1::2], strict=True))
    assert (options["--appendonly"], options["--appendfsync"], options["--save"]) == ("yes", "always", "")
    assert options["--maxmemory-policy"] == "noeviction"


def test_what_is_started_on_the_page_works_among_the_checkouts():
    """In a folder that the workers have too, and that is not the one of the archives."""
    mounted = {
        name: {mount["mountPath"] for mount in containers(pod)[0]["volumeMounts"]} for name, pod in pods(CLUSTER)
    }
    (serve,) = (containers(pod)[0] for name, pod in pods(CLUSTER) if name == "maestro-serve")
    assert serve["workingDir"] == "/projects"
    assert "/projects" in mounted["maestro-serve"] & mounted["maestro-worker"]


def test_the_cluster_sets_nothing():
    """For every service it would tell each pod variables of its name, and one of them is the name of a setting."""
    services = [one["metadata"]["name"] for one in CLUSTER if one["kind"] == "Service"]
    told = {f"{name.upper().replace('-', '_')}_PORT" for name in services}
    assert told & set(VARIABLES) == {"MAESTRO_SERVE_PORT"}, "the control: that is so"
    assert [pod.get("enableServiceLinks") for _, pod in pods(CLUSTER)] == [False] * len(dict(pods(CLUSTER)))


def test_what_is_set_are_settings():
    """The file that becomes the environment has no misspelled name; every other setting may stand there too."""
    given = next(one["data"] for one in CLUSTER if one["kind"] == "ConfigMap")
    assert set(given) - {"SERVE_NAME"} <= set(VARIABLES)


def test_stopping_drains():
    """A worker gets longer than its runs may take; the page is asked no more before it stops."""
    found = dict(pods(CLUSTER))
    given = next(one["data"] for one in CLUSTER if one["kind"] == "ConfigMap")
    least = int(given["MAESTRO_STOP_GRACE_SECONDS"]) + EXIT_S
    assert found["maestro-worker"]["terminationGracePeriodSeconds"] > least
    assert found["maestro-serve"]["containers"][0]["lifecycle"]["preStop"]


def test_workers_are_taken_away_one_by_one():
    """By what scales them up and down: KEDA's own cooldown counts only where nothing at all is left."""
    (scaled,) = documents("autoscaling")
    assert "cooldownPeriod" not in scaled["spec"]
    down = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] > dict(pods(CLUSTER))["maestro-worker"]["terminationGracePeriodSeconds"]
    assert [rule["value"] for rule in down["policies"]] == [1]


def test_probes_ask_what_answers():
    """By a name that the page answers to; no probe restarts a worker whose server is away."""
    found = {name: pod["containers"][0] for name, pod in pods(CLUSTER)}
    assert "livenessProbe" not in found["maestro-worker"]
    assert all("readinessProbe" in one for one in found.values())
    names = found["maestro-serve"]["args"]
    assert "maestro-serve.$(POD_NAMESPACE).svc" in names, "for Prometheus; another name is refused (421)"
    assert [source["valueFrom"] for source in found["maestro-serve"]["env"] if source["name"] == "POD_NAMESPACE"] == [
        {"fieldRef": {"fieldPath": "metadata.namespace"}}
    ]
    asked = found["maestro-serve"]["readinessProbe"]["httpGet"]
    assert (asked["path"], asked["httpHeaders"]) == ("/v1/health", [{"name": "Host", "value": "localhost"}])
