"""Folders that stand for images: made of Debian's packages, changed by the instructions of the Dockerfile, entered."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import compose, image

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CA = "/etc/ssl/certs/ca-certificates.crt"
#: What a build may see of this machine: how the registries are reached.
REACHING = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
#: What stands for a base that is not here: packages of the same Debian release. Its Python is another one than the
#: base's; Node is the one of the same major version that npm has.
RELEASE = "bookworm"
PACKAGES = "ca-certificates,python3,python3-venv,python3-pip"
#: What the compose file asks for before it can be read.
PASSWORDS = ("REDIS_TERMINAL_PASSWORD", "REDIS_WORKER_PASSWORD", "REDIS_ADMIN_PASSWORD")


@dataclass
class Root:
    """One folder, and what its instructions have said so far."""

    path: Path
    environment: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    )
    arguments: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"

    def place(self, name: str) -> Path:
        """Return where a path of the image is."""
        return self.path / os.path.join(self.folder, name).lstrip("/")

    def copy(self, path: Path) -> Root:
        """Return a root that begins where this one ends."""
        subprocess.run(["cp", "-a", "--reflink=auto", f"{self.path}/.", str(path)], check=True)
        return Root(path, dict(self.environment), {}, self.folder, self.user)

    def run(self, words: list[str], *, service: str = "", **options) -> subprocess.CompletedProcess[str]:
        """Run words in it, as its user; for a service as the compose file has it: a read-only root, and its mounts."""
        reaching = {name: os.environ[name] for name in REACHING if name in os.environ}
        reaching |= dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), CA)
        environment = self.environment | self.arguments | reaching
        enter = [str(self.path), self.user, self.folder, " ".join(mounts(service)) if service else "", *words]
        apart = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _ENTER, "sh"]
        return subprocess.run([*apart, *enter], env=environment, text=True, check=False, **options)


def mounts(service: str) -> Iterator[str]:
    """Return what a service has mounted, as FOLDER:OPTIONS, with what an engine adds.

    A tmpfs is root's, whoever the folder below it belongs to, and nothing in it can be executed, unless its options say
    otherwise. A new volume gets the owner of the image's folder, which `_ENTER` reads.
    """
    found = compose.load(dict.fromkeys(PASSWORDS, "x" * 8))["services"][service]
    for entry in found.get("tmpfs", []):
        folder, _, options = entry.partition(":")
        yield f"{folder}:noexec,nosuid,nodev{',' if options else ''}{options}"
    for entry in found.get("volumes", []):
        yield f"{entry.split(':')[1]}:volume"


#: In a namespace of mounts of its own: what is mounted is gone with it, and nothing that removes the folder sees it.
_ENTER = """
root=$1 user=$2 folder=$3 mounts=$4; shift 4
for one in $mounts; do
    mkdir -p "$root${one%%:*}"
done
if [ "$mounts" ]; then
    mount --bind "$root" "$root"
    mount -o remount,bind,ro "$root"
fi
for one in $mounts; do
    place=$root${one%%:*} options=${one#*:}
    if [ "$options" = volume ]; then
        options=$(stat -c "uid=%u,gid=%g" "$place")
    fi
    mount -t tmpfs -o "mode=$(stat -c %a "$place"),$options" tmpfs "$place"
done
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot --userspec="$user" "$root" env --chdir="$folder" "$@"
"""


def debian(folder: Path) -> Root:
    """Return a Debian with Python, as small as its packages allow; `python` is its python3."""
    made = folder / "debian"
    program, environment = _debootstrap(folder)
    words = ["--variant=minbase", f"--include={PACKAGES}", RELEASE, str(made)]
    subprocess.run([program, *words], env=os.environ | environment, check=True, stdout=subprocess.DEVNULL)
    (made / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    shutil.copyfile(CA, made / CA.lstrip("/"))
    shutil.copyfile("/etc/resolv.conf", made / "etc/resolv.conf")
    return Root(made)


def _debootstrap(folder: Path) -> tuple[str, dict[str, str]]:
    """Return the program that makes a Debian: the machine's, or the one from its package."""
    if found := shutil.which("debootstrap"):
        return found, {}
    there = folder / "debootstrap"
    there.mkdir()
    subprocess.run(["apt-get", "download", "-q", "debootstrap"], cwd=there, check=True, capture_output=True)
    subprocess.run(["dpkg-deb", "-x", *map(str, there.glob("*.deb")), str(there)], check=True)
    return str(there / "usr/sbin/debootstrap"), {"DEBOOTSTRAP_DIR": str(there / "usr/share/debootstrap")}


def add_node(root: Root, major: str) -> None:
    """Put Node of a major version, and npm, where Node's own images have them."""
    with tempfile.TemporaryDirectory() as scratch:
        words = [
            "npm",
            "install",
            "--prefix",
            scratch,
            "--no-audit",
            "--no-fund",
            "--silent",
            f"node@{major}",
            "npm@10",
        ]
        subprocess.run(words, check=True)
        modules = Path(scratch, "node_modules")
        local = root.path / "usr/local"
        shutil.copy(modules / "node/bin/node", local / "bin/node")
        (local / "lib/node_modules").mkdir(parents=True, exist_ok=True)
        shutil.copytree(modules / "npm", local / "lib/node_modules/npm", symlinks=True)
    (local / "bin/npm").symlink_to("../lib/node_modules/npm/bin/npm-cli.js")


def build(stage: str, built: dict[str, Root], scratch: Path, given: Mapping[str, str]) -> Root:
    """Carry out a stage of the Dockerfile, and those it needs; every RUN line runs as it stands there."""
    if stage in built:
        return built[stage]
    found = image.stages().get(stage)
    if found is None:  # a base that would come from a registry
        kind, _, tag = stage.partition(":")
        base = built["debian"].copy(scratch / kind)
        if kind == "node":
            add_node(base, tag.partition("-")[0])
        built[stage] = base
        return base
    root = build(found.base, built, scratch, given).copy(scratch / stage)
    for word, rest in found.lines:
        carry_out(root, word, rest, lambda other: build(other, built, scratch, given), given)
    built[stage] = root
    return root


def carry_out(root: Root, word: str, rest: str, stage_of, given: Mapping[str, str]) -> None:
    """Carry out one instruction."""
    match word:
        case "ARG":
            root.arguments[rest] = given[rest]
        case "ENV":
            for name, value in re.findall(r"(\w+)=(\S+)", rest):
                root.environment[name] = value.replace("$PATH", root.environment["PATH"])
        case "WORKDIR":
            root.folder = rest
            root.place(".").mkdir(parents=True, exist_ok=True)
        case "USER":
            root.user = rest
        case "COPY":
            copy(root, rest, stage_of)
        case "RUN":
            print(f"RUN {rest[:100]}", flush=True)
            done = root.run(["/bin/sh", "-c", rest])
            assert done.returncode == 0, f"exited with {done.returncode}: {rest}"
        case "ENTRYPOINT" | "CMD" | "HEALTHCHECK" | "VOLUME":
            pass  # what a container does with it, not what makes it
        case _:
            raise AssertionError(f"no such instruction: {word}")


def copy(root: Root, rest: str, stage_of) -> None:
    """Copy from the checkout, or from another stage."""
    *sources, target = rest.split()
    top = image.ROOT
    if sources[0].startswith("--from="):
        top = stage_of(sources.pop(0).removeprefix("--from=")).path
    for name in sources:
        place = root.place(target) / Path(name).name if target.endswith("/") else root.place(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        source = top / name.lstrip("/")
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place)
