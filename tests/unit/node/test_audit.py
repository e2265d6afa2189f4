"""The audit logs of several nodes as one list."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from election.contract import Identity
from registry.audit import tail
from registry.audit.tail import AuditEntries, AuditFilter, AuditQuery
from registry.node.audit import AuditTails


class Cluster:
    """Nodes ``n0``, ``n1`` and so on, which ask each other."""

    def __init__(self, *settings: str) -> None:
        self.nodes = []
        for number, setting in enumerate(settings):
            identity = Identity("http", f"h{number}", 8081, eligible=True, peer="", node=f"n{number}")
            self.nodes.append(AuditTails(setting, lambda identity=identity: identity))
        for number, node in enumerate(self.nodes):
            node.ask_others = lambda body, number=number: self._ask(number, body)
            node.without_answer = lambda answers: {node: node for node in answers if answers[node] is None}
        self.silent: set[int] = set()

    async def _ask(self, asking: int, body: bytes) -> dict[str, bytes | None]:
        return {
            f"n{number}": None if number in self.silent else await node.answer_peer(body)
            for number, node in enumerate(self.nodes)
            if number != asking
        }

    def entries(self, limit: int = 100, rest: Any = None, **wanted: str) -> AuditEntries:
        query = AuditQuery(AuditFilter(**wanted), limit, rest or {})
        return asyncio.run(self.nodes[0].entries(query))


def write(path: Path, *seconds: int) -> str:
    lines = [
        msgspec.json.encode({"time": f"2026-01-01T00:00:{each:02}.000Z", "event": "request"})
        for each in seconds
    ]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


def shown(found: AuditEntries) -> list[str]:
    return [f"{each['node'].removeprefix('http://')[:2]} {each['time'][17:19]}" for each in found.entries]


def test_entries_of_all_nodes_are_one_list_in_pages_without_gap_or_repetition(tmp_path: Path) -> None:
    cluster = Cluster(write(tmp_path / "a", 1, 4, 5), write(tmp_path / "b", 2, 3, 6), "")
    whole = cluster.entries()
    assert shown(whole) == ["n1 06", "h0 05", "h0 04", "n1 03", "n1 02", "h0 01"]
    assert (whole.rest, whole.missing) == ({}, [])
    assert [each.destination for each in whole.nodes] == ["file", "file", "none"]
    found, rest = [], None
    while rest is None or rest:
        page = cluster.entries(2, rest)
        found += shown(page)
        rest = page.rest
    assert found == shown(whole)


def test_older_entries_wait_until_each_node_has_looked_at_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "BYTES_MAX", 300)  # of a file, at once: five entries
    cluster = Cluster(write(tmp_path / "a", 1, 2, 40), write(tmp_path / "b", *range(10, 30)))
    page = cluster.entries()
    found = [int(each[3:]) for each in shown(page)]
    assert found == [40, 29, 28, 27, 26, 25]
    while page.rest:
        page = cluster.entries(100, page.rest)
        found += [int(each[3:]) for each in shown(page)]
    assert found == [40, *range(29, 9, -1), 2, 1]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    files = write(tmp_path / "a", 1), str(tmp_path), str(tmp_path / "none")
    cluster = Cluster(files[0], "kafka:audit", "stdout", *files[1:])
    cluster.silent = {2}
    found = cluster.entries()
    assert shown(found) == ["h0 01"]
    assert found.missing == ["n2"]
    named = {each.node: (each.destination, each.topic, bool(each.problem)) for each in found.nodes}
    assert named["n1"] == ("topic", "audit", False)
    assert named["n3"] == ("file", "", True)
    assert named["n4"] == ("file", "", False)


def test_a_node_that_answers_late_is_continued_where_it_was(tmp_path: Path) -> None:
    cluster = Cluster(write(tmp_path / "a", *range(1, 9)), write(tmp_path / "b", 10, 11, 12, 13))
    cluster.silent = {1}
    pages = [cluster.entries(2)]
    assert pages[0].missing == ["n1"]
    for silent in (set(), {1}, set()):
        cluster.silent = silent
        pages.append(cluster.entries(2, pages[-1].rest))
    assert [shown(each) for each in pages] == [
        ["h0 08", "h0 07"], ["n1 13", "n1 12"], ["h0 06", "h0 05"], ["n1 11", "n1 10"]
    ]  # fmt: skip
    cluster.silent = {1}
    last = cluster.entries(100, pages[2].rest)
    assert (shown(last), last.missing, last.rest) == ([f"h0 0{each}" for each in (4, 3, 2, 1)], ["n1"], {})


def test_a_node_whose_file_was_rotated_says_so_and_the_others_go_on(tmp_path: Path) -> None:
    cluster = Cluster(write(tmp_path / "a", 1, 4), write(tmp_path / "b", 2, 3))
    first = cluster.entries(2)
    (tmp_path / "b").rename(tmp_path / "b.1")
    write(tmp_path / "b", 9)
    second = cluster.entries(2, first.rest)
    assert shown(second) == ["h0 01"]
    assert [bool(each.problem) for each in second.nodes] == [False, True]
