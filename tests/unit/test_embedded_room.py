"""How much room on the disk the embedded server needs to take writes, and what it is told."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from maestro_state.local.embedded import disk_space

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path):
    """Give an open folder."""
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield handle
    os.close(handle)


class FakeServer:
    """Remembers what it was told."""

    def __init__(self) -> None:
        """Be told nothing yet."""
        self.told: list[str] = []

    def call(self, *words: str) -> str:
        """Take a command."""
        self.told.append(" ".join(words))
        return "OK"


def _disk(monkeypatch, *, total: int, free: int) -> None:
    said = SimpleNamespace(f_blocks=total // 4096, f_bavail=free // 4096, f_frsize=4096)
    monkeypatch.setattr(os, "fstatvfs", lambda _: said)


@pytest.mark.parametrize(
    ("total", "free", "is_full"),
    [
        (100 << 30, 33 * MIB, False),
        (100 << 30, 31 * MIB, True),
        (500 * MIB, 6 * MIB, False),
        (500 * MIB, 4 * MIB, True),
        (8 * MIB, 2 * MIB, False),
        (8 * MIB, MIB - 4096, True),
        (0, 0, False),
    ],
)
def test_a_hundredth_of_the_disk_is_kept_free(folder, monkeypatch, total, free, is_full):
    """At least one megabyte and at most 32; a file system that does not count is not full."""
    _disk(monkeypatch, total=total, free=free)
    assert disk_space.is_full(folder) is is_full


def test_the_server_is_told_only_what_is_new(folder, monkeypatch):
    """Once when it has to refuse writes, once when it may take them again."""
    server, keeper = FakeServer(), disk_space.Room()
    for free, answer in ((64 * MIB, True), (64 * MIB, None), (MIB, False), (MIB, None), (64 * MIB, True)):
        _disk(monkeypatch, total=100 << 30, free=free)
        assert keeper.tend(folder, server) is answer
    assert server.told == [f"CONFIG SET min-replicas-to-write {value}" for value in (0, 1, 0)]


def test_what_cannot_be_taken_is_trouble_and_nothing_stays_behind(folder, monkeypatch, tmp_path):
    """A quota is known to nobody but who tries; the try leaves no file."""
    assert disk_space.storage_trouble(folder) is None

    def refuse(*_: object) -> None:
        raise OSError(122, "Disk quota exceeded")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert disk_space.storage_trouble(folder) == "Disk quota exceeded"
    assert os.listdir(tmp_path) == []
