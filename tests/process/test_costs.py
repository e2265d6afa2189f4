"""Costs of a request, counted in calls, because times say little on a shared machine."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import httpx

from tests.process.test_lifecycle import children
from tests.support import profiled
from tests.support.running import PATIENT, Registry, until

POSTS = 20
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
    # 592 on a calm machine; timers, and writes by the write thread, add some where others are busy.
    assert each_post("all") <= 640
    assert sum(count >= POSTS for name, count in calls.items() if name.startswith("in ")) <= 110
