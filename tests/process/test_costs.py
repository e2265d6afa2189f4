"""Costs of a request, counted in calls, because times say little on a shared machine."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.process.test_lifecycle import children
from tests.support import profiled
from tests.support.running import PATIENT, Registry, until

POSTS = 20
# Writes of the node's process to files and sockets for one schema: pages of the log and the store, the reply.
WRITES_MAX = 16
# Posts of which none meets a thread that looks at something once a second, in some round at least.
ROUND = 5
HOOK = Path(profiled.__path__[0])


def counted(registry: Registry, folder: Path, suffix: str) -> list[Path]:
    """Signal the processes of a registry; return their files once all have written one."""
    pids = children(registry)
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)
    files = [folder / f"{pid}{suffix}" for pid in pids]
    until(lambda: all(each.exists() for each in files), 30, f"{suffix} of all processes")
    return files


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


class Counted(NamedTuple):
    """Counters of a process."""

    # Calls of write and its kin.
    writes: int
    # How often each thread had the processor, by its id.
    turns: dict[str, int]

    @classmethod
    def of(cls, pid: int) -> Counted:
        folder = Path(f"/proc/{pid}")
        writes = re.search(r"syscw: (\d+)", (folder / "io").read_text())
        assert writes is not None
        turns = {each.name: each / "schedstat" for each in (folder / "task").iterdir()}
        return cls(int(writes[1]), {name: int(each.read_text().split()[2]) for name, each in turns.items()})

    def threads_since(self, before: Counted) -> set[str]:
        """Return the threads that have run since."""
        return {name for name, turns in self.turns.items() if turns != before.turns.get(name)}


def test_a_lone_write_is_made_by_one_thread_of_the_node_in_few_writes(tmp_path: Path) -> None:
    """The event loop decides, appends, applies and commits it; nothing else wakes up.

    Not in every round: some threads look at something once a second, and while writes take long for other
    reasons, the write thread makes them.
    """
    registry = Registry(tmp_path / "data").wait()
    node = next(each for each in children(registry) if b"registry.node" in cmdline(each))
    numbers = itertools.count()
    with httpx.Client(base_url=registry.url, timeout=PATIENT) as client:

        def fewest() -> bool:
            before = Counted.of(node)
            for _ in range(ROUND):
                name = f"s{next(numbers)}"
                schema = json.dumps({"type": "record", "name": name, "fields": []})
                client.post(f"/subjects/{name}/versions", json={"schema": schema}).raise_for_status()
            after = Counted.of(node)
            rounds.append((len(after.threads_since(before)), (after.writes - before.writes) / ROUND))
            return rounds[-1][0] == 1 and rounds[-1][1] <= WRITES_MAX

        rounds: list[tuple[int, float]] = []
        try:
            until(fewest, 30, "a round of writes by one thread")
        except AssertionError:
            raise AssertionError(f"threads, and writes for a schema: {rounds[-10:]}") from None
    assert registry.stop() == 0, registry.output


def test_a_new_schema_opens_four_views_and_is_parsed_once(tmp_path: Path) -> None:
    """Two views in the reader (fast path, handler), and two in the node (decision, fold).

    Without webhooks nothing else looks at the rows.
    """
    environment = {"PYTHONPATH": str(HOOK), "COUNTS": str(tmp_path)}
    registry = Registry(tmp_path / "data", environment=environment).wait()
    with httpx.Client(base_url=registry.url, timeout=PATIENT) as client:

        def post(number: int) -> None:
            schema = json.dumps({"type": "record", "name": f"R{number}", "fields": []})
            client.post(f"/subjects/s{number}/versions", json={"schema": schema}).raise_for_status()

        for number in range(POSTS):
            post(number)
        counted(registry, tmp_path, ".counting")
        for number in range(POSTS, 2 * POSTS):
            post(number)
        files = counted(registry, tmp_path, ".json")
    assert registry.stop() == 0, registry.output
    calls = Counter[str]()
    for each in files:
        for what, count in json.loads(each.read_text())["calls"].items():
            file, function, caller = what.split(" ")
            calls[function] += count
            calls[f"{function} by {caller}"] += count
            calls["all"] += count
            calls[f"in {file}"] += count

    def each_post(*names: str) -> int:
        return round(sum(calls[name] for name in names) / POSTS)

    assert each_post("StoreReader.view") == 2
    assert each_post("Store.view by BatchWriter._write", "Store.view by LogFold._step_here") == 2
    assert calls["WebhookSender._look"] == 0
    assert each_post("AvroFormat.parse") == 1
    # In the reader and in the node.
    assert each_post("Subject.parse") == 2
    # The handler and the decision, each once: the rows may have changed in between.
    assert each_post("_target") <= 2
    # The subject's for both, and that of its context and of all contexts for the decision.
    assert each_post("_config_at") <= 4
    assert each_post("all") <= 660
    assert sum(count >= POSTS for name, count in calls.items() if name.startswith("in ")) <= 112
