"""The benchmarks of the report run to their end; what they measure in moments means nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import PAGES, ROOT, SECTIONS, page_of

pytestmark = pytest.mark.long

# Seconds; on busy cores each takes several times as long as on calm ones.
TIMEOUT_S = 600
_NEEDED = ("wrk", "nginx", "strace")


@pytest.mark.skipif(not all(map(shutil.which, _NEEDED)), reason=f"needs {', '.join(_NEEDED)}")
@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_is_measured_and_written_into_its_page(section: str, tmp_path: Path) -> None:
    for page in PAGES:
        shutil.copy(ROOT / "bench" / page, tmp_path)
    before = page_of(section, tmp_path).read_text(encoding="utf-8")
    words = ["--only", section, "--brief", "--folder", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "report.py"), *words],
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    assert page_of(section, tmp_path).read_text(encoding="utf-8") != before
