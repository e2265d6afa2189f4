"""Audit entries for new contents of files."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from registry.audit.log import AuditLog, FileChanges, RequestEntry
from registry.base.config.loading import Settings
from registry.node.process import Governance
from tests.support.running import until_async


class ListSink:
    """Keeps lines, and the threads that wrote them."""

    def __init__(self) -> None:
        self.lost_count = 0
        self.lines: list[bytes] = []
        self.threads: set[int] = set()

    def write(self, line: bytes, *, awaited: bool = False) -> None:
        self.lines.append(line)
        self.threads.add(threading.get_ident())

    async def wait_written(self) -> None:
        pass

    async def close(self, grace_s: float) -> None:
        pass


def test_refusals_of_unknown_clients_are_counted_and_nothing_waits_for_them() -> None:
    sink = ListSink()
    refused = RequestEntry("GET /subjects", "r", "", "192.0.2.1", "", 401, 401, admitted=False)

    async def main() -> None:
        audit = AuditLog(sink)
        for _ in range(1000):
            assert audit.record_request([refused]) is None
        waiting = audit.record_request([refused._replace(principal="alice", admitted=True)])
        assert waiting is not None
        await waiting
        await audit.close(1.0)

    asyncio.run(main())
    assert [json.loads(each).get("requests", 1) for each in sink.lines] == [1, 1, 999]


@pytest.mark.parametrize("audited", [False, True])
def test_the_end_of_watching_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, audited: bool
) -> None:
    policies = tmp_path / "policies.toml"
    policies.write_text("")
    audit_log = str(tmp_path / "audit.jsonl") if audited else ""

    async def main() -> None:
        governance = Governance(Settings(policies=str(policies), audit_log=audit_log))
        await governance.close()

    asyncio.run(main())
    gc.collect()  # an error that nobody has seen is logged with its future
    assert not caplog.records


def test_each_content_is_recorded_once_on_the_event_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Destinations are not safe for threads. The lines of the log come from those who use the file."""
    caplog.set_level(logging.INFO)
    policies, sink = tmp_path / "policies.toml", ListSink()
    policies.write_text("# one\n")

    async def main() -> None:
        changes = FileChanges(Settings(policies=str(policies)), AuditLog(sink))
        watching = asyncio.create_task(changes.watch(every_s=0.01))
        policies.with_suffix(".new").write_text("# two\n")
        policies.with_suffix(".new").replace(policies)
        await until_async(lambda: len(sink.lines) == 2, "the new content to be recorded")
        watching.cancel()

    asyncio.run(main())
    found = [json.loads(line) for line in sink.lines]
    assert [each["sha256"] for each in found] == [
        sha256(content).hexdigest() for content in (b"# one\n", b"# two\n")
    ]
    assert {(each["setting"], each["path"]) for each in found} == {("policies", str(policies))}
    assert sink.threads == {threading.get_ident()}
    assert not [each for each in caplog.records if each.name.startswith("registry")]
