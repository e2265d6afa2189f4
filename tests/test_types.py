"""The types of the product, and names and arguments of tests: a test, so that it runs while others wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_mypy_finds_nothing() -> None:
    command = [sys.executable, "-m", "mypy"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
