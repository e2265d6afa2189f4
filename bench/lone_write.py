"""The parts of a lone write of a standalone node: their CPU time, the sync, and the pages that are written.

    python bench/lone_write.py [--versions 1000] [--writes 500] [--folder /tmp]

One thread decides, appends, applies and commits one new schema after another, as the node's event loop does
(registry/node/write/DESIGN.md); readers, sockets and HTTP are not part of it. A profiler slows all parts
down: its shares are applied to the CPU time of a run without it.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import mmap
import pstats
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.command_line import run_in_folder
from bench.load import schema
from registry.domain.commands import Done, Outcome, Register
from registry.domain.pending_command import CommandRequest, PendingCommand
from registry.domain.queries.scope import Defaults
from registry.domain.schemas import FORMATS
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.node.replication.follower import Follower
from registry.node.replication.loop import FollowLoop
from registry.node.write.writer import Writer, Writing
from registry.store.open import open_store

_WAIT_S = 30.0
# Parts by the end of their file's path and the name of their function.
PARTS = {
    "decide": ("node/write/batch.py", "decide"),
    "append to the log": ("log/embedded/log.py", "append"),
    "read back": ("log/embedded/log.py", "read"),
    "apply": ("fold/fold.py", "apply_all"),
    "entries of the history": ("history/entries.py", "slice_of"),
    "commit to the store": ("store/lmdb.py", "commit_folded"),
}


class Node:
    """The parts of a standalone node that write, stepped by this thread."""

    def __init__(self, folder: Path) -> None:
        self.log = EmbeddedLog(folder / "log")
        self.store, _ = open_store(folder / "store", self.log.identity, self.log.end())
        self.follower = Follower(self.log, self.store, history=True)
        following = FollowLoop(self.log, self.store, self.follower, caught_up=lambda: None)
        self.writer = Writer(
            self.log, self.store, Writing(Defaults(), queue_max=10_000), follow=following.reach,
            deliver=lambda replies: [pending.reply(outcome) for pending, outcome in replies].clear(),
            now=now_ms, clock=time.monotonic,
        )  # fmt: skip
        self.writer.open(None)
        self._numbers = itertools.count()

    def register(self, count: int, batch: int) -> None:
        """Register so many new schemas, in batches of one size."""
        for begin in range(0, count, batch):
            for number in itertools.islice(self._numbers, min(batch, count - begin)):
                text = FORMATS["AVRO"].parse(schema(f"N{number}")).canonical
                command = Register(f"subject-{number}", text, "AVRO", canonical=True)
                request = CommandRequest(command, _WAIT_S)
                self.writer.submit(PendingCommand(request, time.monotonic() + _WAIT_S, _check))
            self.writer.step()

    def close(self) -> None:
        self.follower.close()
        self.store.close()
        self.log.close()


def _check(outcome: Outcome) -> None:
    assert isinstance(outcome, Done), outcome


def time_parts(timer: Callable[[], float], work: Callable[[], None]) -> dict[str, float]:
    """Return the seconds of each part, and of the writer's whole step, by a clock."""
    profile = cProfile.Profile(timer)
    profile.runcall(work)
    found = pstats.Stats(profile).stats  # type: ignore[attr-defined]

    def seconds(path: str, function: str) -> float:
        return sum(
            each[3] for (file, _, name), each in found.items() if name == function and file.endswith(path)
        )

    wanted = PARTS | {"all": ("node/write/writer.py", "step")}
    return {part: seconds(path, function) for part, (path, function) in wanted.items()}


def pages() -> float:
    """Return how many pages this process has written so far."""
    written = re.search(r"wchar: (\d+)", Path("/proc/self/io").read_text())
    assert written is not None
    return int(written[1]) / mmap.PAGESIZE


def run(given: argparse.Namespace, folder: Path) -> None:
    """Measure, and print a table."""
    node, count = Node(folder), given.writes
    node.register(given.versions, 500)
    node.register(count, 1)  # Everything warms up.
    parsing = time.thread_time()
    for number in range(count):
        FORMATS["AVRO"].parse(schema(f"P{number}"))
    parsing = time.thread_time() - parsing
    before, began = pages(), time.thread_time()
    node.register(count, 1)
    used, written = time.thread_time() - began - parsing, pages() - before
    cpu = time_parts(time.thread_time, lambda: node.register(count, 1))
    wall = time_parts(time.perf_counter, lambda: node.register(count, 1))
    node.close()
    each, append = used / cpu["all"] / count * 1e6, "append to the log"
    for part in PARTS:
        print(f"{part:30} {cpu[part] * each:6.0f} µs")
    print(f"{'all else':30} {(cpu['all'] - sum(cpu[part] for part in PARTS)) * each:6.0f} µs")
    print(f"{'all, of CPU':30} {used / count * 1e6:6.0f} µs")
    print(f"{'sync':30} {max(0.0, wall[append] - cpu[append]) / count * 1e6:6.0f} µs of waiting")
    print(f"{written / count:.1f} pages for a write, over {given.versions + count:,} versions")


if __name__ == "__main__":
    run_in_folder(__doc__, run, versions=1000, writes=500)
