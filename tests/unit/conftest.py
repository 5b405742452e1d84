"""What several of these files start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.generations import write_generation


@pytest.fixture
def kept(project: Path) -> Path:
    """Return a project with generation 1 in place."""
    for number in (0, 1):
        write_generation(project, number, in_place=True)
    return project
