"""A command on its way to a primary that is killed is executed once, and answered normally."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import orjson
import pytest

from registry.domain.log_format.records import Record
from tests.support.running import children_of, until

from .load import REQUEST_TIMEOUT_S, Line
from .rig import HEAL_S, FaultyNode, Rig
from .scripts import Script, troubles
from .segments import batches

SCRIPTS = 6
KILLS = 2
STILL_S = 1.0
LARGE = {"type": "record", "name": "Large", "doc": "x" * 300_000, "fields": []}


@contextmanager
def working(nodes: Sequence[FaultyNode], name: str) -> Iterator[list[Script]]:
    """Run scripts on these nodes during the block; each advances before and after it."""
    scripts = [Script(f"{name}s{number}", nodes[number % len(nodes)].port) for number in range(SCRIPTS)]
    for each in scripts:
        each.start()
    try:
        _go_on(scripts)
        yield scripts
        _go_on(scripts)
    finally:
        for each in scripts:
            each.stop(2 * REQUEST_TIMEOUT_S)


def _go_on(scripts: Sequence[Script]) -> None:
    seen = [len(each.finished) for each in scripts]

    def done() -> bool:
        went = (len(each.finished) > before for each, before in zip(scripts, seen, strict=True))
        return all(went) or bool(troubles(scripts))

    until(done, HEAL_S, "every script to get on")


def done_in_log(partition: Path, subjects: set[str]) -> dict[str, list[str]]:
    """Return the log's content for each subject: the kinds of its records, in order."""
    found: dict[str, list[str]] = {subject: [] for subject in subjects}
    for batch in batches(partition):
        for record in batch.records:
            subject, kind = _kind(record)
            if subject in found:
                found[subject].append(kind)
    return found


def _kind(record: Record) -> tuple[str, str]:
    key = orjson.loads(record.key or b"{}")
    value = orjson.loads(record.value) if record.value else None
    deleted = " deleted" if value and value.get("deleted") else ""
    gone = " gone" if value is None else ""
    return key.get("subject", ""), f"{key.get('keytype')} {key.get('version', '')}{deleted}{gone}"


def check_once(scripts: Sequence[Script], partition: Path) -> None:
    """Check that every script got the right answers, and that all left the same records in the log."""
    assert troubles(scripts) == []
    subjects = {subject for each in scripts for subject in each.finished}
    ways = {tuple(kinds) for kinds in done_in_log(partition, subjects).values()}
    assert len(ways) == 1, ways


def test_nothing_on_its_way_to_a_primary_that_is_killed_fails_or_is_done_twice(
    rig: Rig, partition: Path
) -> None:
    scripts: list[Script] = []
    for turn in range(KILLS):
        killed = rig.primary()
        others = rig.others(killed)
        with working(others, f"kill{turn}") as made:
            wait_for_what_is_not_answered(killed, others[0])
            killed.kill()
            killed.peers.refuse()
            rig.primary(but=killed)
        scripts += made
        killed.peers.heal()
        killed.start().wait()
    check_once(scripts, partition)


def wait_for_what_is_not_answered(primary: FaultyNode, secondary: FaultyNode) -> None:
    """Return when the primary has executed all commands on their way to it, and no other node knows."""

    def stands_still() -> bool:
        end = secondary.applied()
        try:
            until(lambda: secondary.applied() > end, STILL_S, "more to be done")
        except AssertionError:
            return True
        return False

    primary.peers.mute()
    until(stands_still, HEAL_S, "every script to wait for an answer")


# In make test, tests/cluster/test_full_disk.py fills a primary's disk, and the test above kills a primary.
@pytest.mark.long
def test_nothing_that_a_primary_with_a_full_disk_appended_fails_or_is_done_twice(
    rig: Rig, partition: Path
) -> None:
    """The primary answers nothing that it cannot apply: the next one does, by the idempotency keys."""
    full, large = rig.primary(), {"schema": orjson.dumps(LARGE).decode()}
    with working(rig.nodes, "full") as scripts:
        full.fill_disk()
        for number, node in enumerate(rig.nodes):
            # The scripts leave free pages that they use again; something larger needs room.
            with closing(Line(node.port)) as line:
                answer, _ = line.ask("POST", f"/subjects/large-{number}/versions", large)
            assert answer["status"] == 200, answer
        assert rig.primary() is not full
    full.free_disk()
    until(full.ready, HEAL_S, "the node to be ready again")
    check_once(scripts, partition)


def node_process(node: FaultyNode) -> int:
    """Return the process that writes, without its readers and its parent."""
    return next(pid for pid, name in children_of(node.pid).items() if name == "registry-node")


def test_a_killed_node_process_fails_nothing_even_for_clients_of_its_own_readers(
    rig: Rig, partition: Path
) -> None:
    scripts: list[Script] = []
    for turn in range(KILLS):
        with working(rig.nodes, f"node{turn}") as made:
            os.kill(node_process(rig.primary()), signal.SIGKILL)
            until(lambda: all(node.ready() for node in rig.nodes), HEAL_S, "all nodes to be ready again")
        scripts += made
    check_once(scripts, partition)
