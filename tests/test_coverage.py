"""The floor of the coverage (``make coverage``)."""

from __future__ import annotations

import re
import subprocess
import tomllib

from tests.test_house import ROOT


def test_the_floor_was_never_higher() -> None:
    """Compare it with all former ones that this clone knows; a shallow clone knows one."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]
    command = ["git", "log", "--patch", "-G^fail_under = ", "--format=", "--", "pyproject.toml"]
    changes = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    former = [float(floor) for floor in re.findall(r"^\+fail_under = ([\d.]+)", changes, re.MULTILINE)]
    assert settings["report"]["fail_under"] >= max(former, default=0)
