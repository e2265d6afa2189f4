"""The pure modules of the console, in Node."""

from __future__ import annotations

import subprocess
from pathlib import Path

NAMES = (
    "lint/names_rule.mjs",
    "lint/spaces_rule.mjs",
    "schema_modules.mjs",
    "cluster_modules.mjs",
    "store_modules.mjs",
    "page_modules.mjs",
)
SCRIPTS = [str(Path(__file__).parent / name) for name in NAMES]


def test_the_pure_modules_do_what_they_say() -> None:
    ran = subprocess.run(
        ["node", "--test", *SCRIPTS], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
