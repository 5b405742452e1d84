"""What several of these files start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.generations import spare_of, write_generation


@pytest.fixture
def kept(project: Path) -> Path:
    """Return a project with generation 1 in place and generation 0 beside it."""
    for number in (0, 1):
        write_generation(project, number, keep_spare=True)
    assert spare_of(project).is_dir()
    return project
