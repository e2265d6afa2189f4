"""A release of this checkout, built once for the tests of what it holds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.running import ROOT

# Any time will do; the commit's is the default.
EPOCH = "1700000000"
PROJECT_URL = "https://example.com/owner/registrar"


def release(output: Path, umask: int, variables: Mapping[str, str]) -> str:
    """Build a release without publishing it; return what is printed."""
    environment = {
        "PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": EPOCH, "PROJECT_URL": PROJECT_URL, **variables
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "deploy.release", "--dry-run", "--output", output],
        cwd=ROOT, env=environment, umask=umask, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "dist"
    release(folder, 0o022, {})
    return folder
