"""Chance in tests, repeatable: a failing test shows its seed, and TEST_SEED=… runs it the same way again."""

from __future__ import annotations

import os
import random
import secrets


def seeded() -> random.Random:
    """Return a source of chance and print its seed, which pytest shows when the test fails."""
    seed = int(os.environ.get("TEST_SEED") or secrets.randbits(32))
    print(f"TEST_SEED={seed}")
    return random.Random(seed)
