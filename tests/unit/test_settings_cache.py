"""The cache of validated settings: forgotten when anything changed, and never a secret in it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from maestro_state.errors import ConfigError
from maestro_state.local import settings_validation
from maestro_state.local.settings import load_settings
from maestro_state.local.trust import trust, untrust


class Place:
    """A project and a user's home, and a count of how often settings were validated in full."""

    def __init__(self, base, monkeypatch):
        self.root, self.home = base / "project", base / "home"
        self.root.mkdir()
        self.home.mkdir()
        self.env = {"HOME": str(self.home)}
        self.cache = self.home / ".cache/maestro/settings"
        self.user_file = self.home / ".config/maestro/settings.toml"
        self.project_file = self.root / ".maestro/config/settings.toml"
        self.validated = 0
        resolve = settings_validation.resolve

        def counted(*arguments):
            self.validated += 1
            return resolve(*arguments)

        monkeypatch.setattr(settings_validation, "resolve", counted)

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def load(self, overrides=None, **env):
        return load_settings(self.root, self.env | env, overrides or {})

    def is_warm(self, overrides=None, **env):
        before = self.validated
        self.load(overrides, **env)
        return self.validated == before

    def warm_up(self, overrides=None, **env):
        self.load(overrides, **env)
        assert self.is_warm(overrides, **env)

    def stored(self):
        return b"".join(path.read_bytes() for path in self.cache.iterdir())


@pytest.fixture
def place(tmp_path, monkeypatch):
    return Place(tmp_path, monkeypatch)


def test_same_settings_are_validated_once(place):
    """The second load gives an equal result without validating."""
    first = place.load(MAESTRO_TTL_SECONDS="5", MAESTRO_REDIS_URL="redis://h")
    assert place.validated == 1
    assert vars(place.load(MAESTRO_TTL_SECONDS="5", MAESTRO_REDIS_URL="redis://h")) == vars(first)
    assert place.validated == 1


def test_nothing_configured_validates_and_stores_nothing(place):
    """Defaults, an address and a pinned session need neither validation nor cache."""
    assert place.is_warm()
    assert place.is_warm(MAESTRO_REDIS_URL="redis://h", MAESTRO_SESSION="a", MAESTRO_COOKIE="b")
    assert place.is_warm({"session": "x--abc123"})
    assert not place.cache.exists()


@pytest.mark.parametrize("variables", [{}, {"MAESTRO_REDIS_URL": "redis://h"}, {"MAESTRO_TTL_SECONDS": "5"}])
def test_warm_load_imports_nothing_heavy(place, variables):
    """A program whose settings are known does not import pydantic, and one whose are not does."""
    program = (
        "import os, sys; from pathlib import Path\n"
        "from maestro_state.local.settings import load_settings, describe\n"
        "describe(load_settings(Path(sys.argv[1]), os.environ, {}))\n"
        "heavy = ('pydantic', 'pydantic_settings', 'structlog', 'redis', 'asyncio')\n"
        "print(*[name for name in heavy if name in sys.modules])"
    )

    def imported():
        command = [sys.executable, "-c", program, str(place.root)]
        env = place.env | variables
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    cold = imported()
    assert ("pydantic" in cold) is ("MAESTRO_TTL_SECONDS" in variables)
    assert imported().split() == []


def test_changed_variable_is_seen(place):
    """Another value, another variable or one less is another result."""
    place.warm_up(MAESTRO_TTL_SECONDS="5")
    assert place.load(MAESTRO_TTL_SECONDS="6").ttl_seconds == 6
    assert place.load(MAESTRO_TTL_SECONDS="5", MAESTRO_DEBUG="1").debug is True
    assert place.load().ttl_seconds == 604800
    with pytest.raises(ConfigError):
        place.load(MAESTRO_TTL_SECONDS="five")


def test_changed_override_is_seen(place):
    """Overrides are part of what a result is kept for."""
    place.warm_up({"ttl_seconds": 5})
    assert place.load({"ttl_seconds": 6}).ttl_seconds == 6
    assert place.load({"ttl_seconds": "5"}).ttl_seconds == 5


@pytest.mark.parametrize("which", ["user_file", "project_file"])
def test_changed_file_is_seen(place, which):
    """A file that appears, changes or goes is seen, even with its size and modification time put back."""
    path = getattr(place, which)
    place.write(path, "workers = 5")
    place.warm_up()
    assert place.load().workers == 5
    before = path.stat()
    path.write_text("workers = 6")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert place.load().workers == 6
    path.unlink()
    assert place.load().workers == 8


def test_given_and_revoked_trust_is_seen(place):
    """Trust given or taken back counts at the next load."""
    place.write(place.project_file, 'redis_url = "redis://team"\nworkers = 5')
    place.warm_up()
    assert place.load().ignored == ["redis_url"]
    trust(place.root, place.env)
    assert place.load().redis_url == "redis://team"
    place.warm_up()
    untrust(place.root, place.env)
    assert place.load().redis_url is None


def test_no_secret_is_stored(place):
    """Passwords from the environment, the command line and files are nowhere in the cache."""
    place.write(place.user_file, 'redis_url = "redis://:hunter2@file"\nttl_seconds = 5')
    place.warm_up()
    place.warm_up(MAESTRO_REDIS_URL="redis://:hunter2@env")
    place.warm_up({"queue_url": "redis://:hunter2@argument"})
    assert len(list(place.cache.iterdir())) == 3
    assert b"hunter2" not in place.stored()
    assert b"ttl_seconds" in place.stored()
    assert place.load().redis_url == "redis://:hunter2@file"


def test_secrets_are_read_again_and_checked_again(place):
    """A changed password is seen at once, and a wrong address is refused also when the rest is cached."""
    place.warm_up(MAESTRO_TTL_SECONDS="5", MAESTRO_REDIS_URL="redis://:old@h")
    settings = place.load(MAESTRO_TTL_SECONDS="5", MAESTRO_REDIS_URL="redis://:new@h")
    assert settings.redis_url == "redis://:new@h"
    assert place.is_warm(MAESTRO_TTL_SECONDS="5", MAESTRO_REDIS_URL="redis://:new@h")
    with pytest.raises(ConfigError, match="env MAESTRO_REDIS_URL"):
        place.load(MAESTRO_TTL_SECONDS="5", MAESTRO_REDIS_URL="http://h")


def test_swapped_trusted_file_cannot_use_the_cache(place):
    """A swap does not bring an address in that was never trusted."""
    place.write(place.project_file, 'redis_url = "redis://good"')
    trust(place.root, place.env)
    place.warm_up()
    assert place.load().redis_url == "redis://good"
    place.write(place.project_file, 'redis_url = "redis://evil"')
    settings = place.load()
    assert settings.redis_url is None
    assert settings.ignored == ["redis_url"]


def test_cache_is_private(place):
    """Only the user can look into the cache."""
    place.load(MAESTRO_TTL_SECONDS="5")
    (file,) = place.cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert place.cache.stat().st_mode & 0o777 == 0o700
    assert place.cache.parent.stat().st_mode & 0o777 == 0o700


def cut(file):
    file.write_bytes(file.read_bytes()[:-3])


def alter(file):
    file.write_bytes(file.read_bytes().replace(b'"ttl_seconds": 5', b'"ttl_seconds": 9'))


def share(file):
    file.chmod(0o666)


def share_folder(file):
    file.parent.chmod(0o777)


def link(file):
    os.rename(file, file.parent / "elsewhere")
    file.symlink_to(file.parent / "elsewhere")


def link_folder(file):
    os.rename(file.parent, file.parent.parent / "moved")
    file.parent.symlink_to(file.parent.parent / "moved")


def give_away(file):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(file, 12345, -1)


@pytest.mark.parametrize("spoil", [cut, alter, share, share_folder, link, link_folder, give_away])
def test_cache_that_cannot_be_believed_is_ignored(place, spoil):
    """A damaged, altered, shared, linked or foreign cache file changes nothing but the time it takes."""
    place.load(MAESTRO_TTL_SECONDS="5")
    assert place.is_warm(MAESTRO_TTL_SECONDS="5")
    (file,) = place.cache.iterdir()
    spoil(file)
    before = place.validated
    assert place.load(MAESTRO_TTL_SECONDS="5").ttl_seconds == 5
    assert place.validated == before + 1


def test_unusable_cache_folder_only_costs_time(place, tmp_path):
    """A cache folder that cannot be made or written is no error."""
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", tmp_path / "file/deeper", tmp_path / "no/such/home"):
        env = {"MAESTRO_TTL_SECONDS": "5", "XDG_CACHE_HOME": str(home)}
        assert place.load(**env).ttl_seconds == 5
        assert not place.is_warm(**env)
    assert not (tmp_path / "no").exists()
    place.load(MAESTRO_TTL_SECONDS="5")
    assert place.is_warm(MAESTRO_TTL_SECONDS="5")


def test_cache_inside_the_project_is_not_used(place):
    """Whoever may write the project cannot write what the cache says."""
    env = {"MAESTRO_TTL_SECONDS": "5", "XDG_CACHE_HOME": str(place.root / "cache")}
    place.load(**env)
    assert not place.is_warm(**env)
    assert not (place.root / "cache").exists()


def test_cache_keeps_a_bounded_number_of_results(place):
    """The oldest results go when there are too many."""
    for number in range(1, 80):
        place.load(MAESTRO_TTL_SECONDS=str(number))
    assert len(list(place.cache.iterdir())) == 64
    assert place.is_warm(MAESTRO_TTL_SECONDS="79")
    assert not place.is_warm(MAESTRO_TTL_SECONDS="1")
