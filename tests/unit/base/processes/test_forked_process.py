"""A process forked from this one: its pipes, its end, and what it keeps of its parent.

Forks are made in a process of their own, because the one that runs the tests has threads.
"""

from __future__ import annotations

import subprocess
import sys

_BEGIN = """
import os, signal, sys
from registry.base.processes.forked_process import ForkedProcess
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _BEGIN + code], capture_output=True, text=True, check=True, timeout=60
    )


def test_a_fork_answers_on_its_pipes_and_has_what_its_parent_has_imported() -> None:
    said = run("""
import base64

def work():
    assert "base64" in sys.modules
    sys.stdout.buffer.write(base64.b64encode(sys.stdin.buffer.read()))

with ForkedProcess(work, "registry-test") as process:
    process.stdin.write(b"a request")
    process.stdin.close()
    answer = process.stdout.read()
print(answer.decode(), process.returncode)
""")
    assert said.stdout == "YSByZXF1ZXN0 0\n"


def test_what_a_fork_is_killed_by_and_what_it_fails_with_is_known() -> None:
    said = run("""
def fail():
    raise ValueError("a reason")

with ForkedProcess(fail, "registry-test") as failed:
    pass
with ForkedProcess(signal.pause, "registry-test") as killed:
    killed.kill()
killed.kill()
print(failed.returncode, killed.returncode, killed.wait())
""")
    assert said.stdout == "1 -9 -9\n"
    assert said.stderr.splitlines()[-1] == "ValueError: a reason"


def test_a_fork_sees_the_end_of_its_input_and_keeps_no_channel_of_its_parent_open() -> None:
    said = run("""
reading, writing = os.pipe()
with ForkedProcess(sys.stdin.buffer.read, "registry-test") as process:
    os.close(writing)
    assert os.read(reading, 1) == b""
    process.stdin.close()
    code = process.wait()
print(code)
""")
    assert said.stdout == "0\n"


def test_a_fork_is_listed_under_its_own_name() -> None:
    said = run("""
def name():
    sys.stdout.write(open("/proc/self/comm").read())

with ForkedProcess(name, "registry-test-long") as process:
    print(process.stdout.read().decode())
""")
    assert said.stdout.splitlines()[0] == "registry-test-l"
