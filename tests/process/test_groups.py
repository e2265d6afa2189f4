"""The runner of the groups of tests (``python -m tests``)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.__main__ import GROUPS
from tests.support.running import ROOT, until

# A shell starts its background processes with SIGINT ignored, and their children inherit that.
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.__main__ import run
sys.exit(run({"one": sys.argv[1:2], "two": sys.argv[2:]}, slow_s=0.2, again=1))
"""
WAITING = "test_one.py::test_waiting"
PASSING = "def test_passing(): pass\n"


def lucky(ran: Path) -> str:
    """Return the code of a test that fails when it runs for the first time."""
    return (
        f"from pathlib import Path\nRAN = Path({str(ran)!r})\n"
        "def test_lucky():\n    before = RAN.exists()\n    RAN.touch()\n    assert before\n"
    )


def start(one: Path, two: Path, output: Path) -> subprocess.Popen[bytes]:
    # What other packages add to pytest takes most of the time of its start.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with output.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, one, two],
            cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip


def test_both_groups_run_and_failures_stand_at_the_end(tmp_path: Path) -> None:
    one, two, output = tmp_path / "test_one.py", tmp_path / "test_two.py", tmp_path / "output"
    one.write_text("def test_failing(): assert 'expected' == 'found'\n" + PASSING)
    two.write_text(PASSING)
    assert start(one, two, output).wait() == 1
    text = output.read_text()
    progress, _, rest = text.partition("one: exit status 1")
    failures, _, costs = rest.partition("The most expensive files:")
    assert "test_one.py  1 failed, 1 passed" in progress
    assert "test_two.py  1 passed" in progress
    assert "assert 'expected' == 'found'" in failures
    assert "assert 'expected' == 'found'" not in progress
    assert {Path(line.split()[-1]).name for line in costs.splitlines() if "CPU s" in line} == {
        *("test_one.py", "test_two.py"), *("one", "two", "everything"),
    }  # fmt: skip


@pytest.mark.parametrize("allowed", [True, False])
def test_a_test_that_passes_when_run_again_alone_is_named(tmp_path: Path, allowed: bool) -> None:
    """As many as may be run again: one in ``SCRIPT``."""
    one, two, ran, output = (tmp_path / name for name in ("test_one.py", "test_two.py", "ran", "output"))
    one.write_text(lucky(ran))
    two.write_text(PASSING if allowed else PASSING + "def test_failing(): assert False\n")
    assert start(one, two, output).wait() == (not allowed)
    named = "Passed only when run again, and so rest on luck:\n"
    assert ("test_one.py::test_lucky" in output.read_text().partition(named)[2]) == allowed


def test_nothing_is_run_again_if_a_failure_has_no_result(tmp_path: Path) -> None:
    """As when a test has printed into the line of its result: that one would be forgotten."""
    one, two, ran, output = (tmp_path / name for name in ("test_one.py", "test_two.py", "ran", "output"))
    one.write_text(lucky(ran))
    two.write_text(
        "import os\ndef test_failing(capfd):\n"
        "    with capfd.disabled():\n        os.write(1, b'printed\\n')\n    assert False\n"
    )
    assert start(one, two, output).wait() == 1
    assert "Once more, alone:" not in output.read_text()


def test_the_cost_of_a_file_includes_what_its_processes_computed(tmp_path: Path) -> None:
    one, two, output = tmp_path / "test_one.py", tmp_path / "test_two.py", tmp_path / "output"
    one.write_text(
        "import subprocess, sys\n"
        "CODE = 'import time\\nwhile time.process_time() < 1: pass'\n"
        "def test_computing(): subprocess.run([sys.executable, '-c', CODE])\n"
    )
    two.write_text(PASSING)
    assert start(one, two, output).wait() == 0
    dearest = output.read_text().partition("The most expensive files:\n")[2].splitlines()[0]
    assert dearest.endswith("test_one.py")
    assert float(dearest.split()[2]) >= 1.0


def test_a_test_that_hangs_is_named(tmp_path: Path) -> None:
    one, two, go, output = (tmp_path / name for name in ("test_one.py", "test_two.py", "go", "output"))
    one.write_text(
        "from pathlib import Path\nfrom tests.support.running import until\n"
        f"def test_waiting(): until(Path({str(go)!r}).exists, 60, 'the file')\n"
    )
    two.write_text(PASSING)
    run = start(one, two, output)
    try:
        until(lambda: WAITING in output.read_text(), 60, "the name of the test that hangs")
    finally:
        go.touch()
    assert run.wait() == 0


def test_an_interrupted_run_names_the_test_that_ran(tmp_path: Path) -> None:
    one, two, output = tmp_path / "test_one.py", tmp_path / "test_two.py", tmp_path / "output"
    one.write_text("import threading\ndef test_waiting(): threading.Event().wait()\n")
    two.write_text(PASSING)
    run = start(one, two, output)
    try:
        until(lambda: WAITING in output.read_text(), 60, "the test to run")
    finally:
        run.send_signal(signal.SIGINT)
    try:
        assert run.wait(60) == 1
    finally:
        run.kill()
    assert "interrupted while running: " in output.read_text().partition("one: exit status")[0]


def test_every_file_of_tests_is_in_one_group() -> None:
    """Folders that no list names are tried too."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        if "node_modules" not in path.parts:
            file = path.relative_to(ROOT)
            assert sum(_tries(arguments, file) for arguments in GROUPS.values()) == 1, file


def _tries(arguments: Sequence[str], file: Path) -> bool:
    """Return true if pytest runs the file when it gets these arguments."""
    within = {str(each) for each in (file, *file.parents)}
    return bool(within & {*arguments}) and not {f"--ignore={each}" for each in within} & {*arguments}
