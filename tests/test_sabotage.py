"""The patches of ``make sabotage``, which break one guarantee each."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_patch_applies_to_the_present_code() -> None:
    """A patch that does not apply breaks nothing, so no test could be shown to notice it."""
    patches = sorted((ROOT / "tests" / "sabotage").glob("*.patch"))
    assert patches
    stale = [each.name for each in patches if _check(each).returncode]
    assert not stale


def _check(patch: Path) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "apply", "--check", str(patch)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
