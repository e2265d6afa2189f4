"""A child that is started again and again: what is left of it in the process that starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# The reader of this program ends at once; with "orphan" it leaves a process that ends about
# when it does, with "late" one that waits for a signal.
PROGRAM = """
import asyncio, ctypes, gc, json, os, signal, sys, types
from pathlib import Path
from registry.base.config.settings import Settings
from registry.host.child import Child, reap_orphans

def main(parent):
    if sys.argv[1] == "late" and os.fork() == 0:
        os.closerange(0, 1000)  # the channel, too
        signal.pause()
    if sys.argv[1] == "orphan":
        begun, tell = os.pipe()
        if os.fork() == 0:
            os.write(tell, b"x")
            os._exit(0)
        os.read(begun, 1)
    return 7

def pids():
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            if int(rest.split()[1]) == os.getpid():
                found.append(int(entry.name))
    return found

async def run():
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans come here, as to the first process
    child = Child("reader", Settings(data=Path("/nowhere")), Path("/nowhere/socket"), lambda: None)
    seen = []
    reap_orphans(asyncio.get_running_loop())
    for _ in range(int(sys.argv[2])):
        code = await child.run()
        seen.append([code, gc.get_freeze_count(), len(os.listdir("/proc/self/fd"))])
    for each in pids() if sys.argv[1] == "late" else ():
        os.kill(each, signal.SIGKILL)
    async with asyncio.timeout(30):
        while pids():
            await asyncio.sleep(0.01)
    return {"seen": seen, "left": pids(), "threads": len(os.listdir("/proc/self/task")), "gc": gc.isenabled()}

module = types.ModuleType("registry.reader.main")
module.main = main
sys.modules[module.__name__] = module
print(json.dumps(asyncio.run(run())))
"""


def run(kind: str, times: int) -> Any:
    command = [sys.executable, "-W", "error", "-c", PROGRAM, kind, str(times)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_is_left_of_a_child_that_is_started_again() -> None:
    found = run("plain", 20)
    codes, frozen, files = zip(*found["seen"], strict=True)
    assert {*codes} == {7}
    # What the first start still needed may be gone afterwards.
    assert len({*frozen[1:]}) == len({*files}) == 1, found["seen"]
    assert frozen[0] >= frozen[-1]
    # Other threads could hold locks while it forks.
    assert (found["left"], found["threads"], found["gc"]) == ([], 1, True)


def test_orphans_of_a_child_are_reaped() -> None:
    """In a container they are left to its first process, and nobody else would."""
    found = run("orphan", 3)
    assert found["left"] == []


def test_orphans_that_end_long_after_the_child_are_reaped_at_once() -> None:
    assert run("late", 3)["left"] == []
