"""Reading an audit log back: from its end, filtered, in pages, with bounded work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from registry.audit import tail
from registry.audit.tail import AuditFilter, Position, Rotated, read_tail


def entry(number: int, **more: Any) -> bytes:
    members = {"time": f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z", "event": "request", **more}
    return msgspec.json.encode({"operation": "PUT /config", "outcome": "done", **members}) + b"\n"


def times(page: tail.AuditPage) -> list[str]:
    return [each.time[14:19] for each in page.entries]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(entry(each, principal=f"p{each % 2}") for each in range(10)))
    return path


def test_the_newest_come_first_and_pages_continue_where_the_last_one_ended(log: Path) -> None:
    first = read_tail(log, AuditFilter(), 3)
    assert times(first) == ["00:09", "00:08", "00:07"]
    with log.open("ab") as file:
        file.write(entry(11))  # what is appended meanwhile shifts nothing
    second = read_tail(log, AuditFilter(), 100, first.rest)
    assert times(second) == [f"00:0{each}" for each in range(6, -1, -1)]
    assert (second.rest, second.oldest[14:19]) == (None, "00:00")
    assert times(read_tail(log, AuditFilter(), 1)) == ["00:11"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AuditFilter(principal="p1"), [9, 7, 5, 3, 1]),
        (AuditFilter(principal="p"), []),
        (AuditFilter(since="2026-01-01T00:00:08.000Z"), [9, 8]),
        (AuditFilter(until="2026-01-01T00:00:02.000Z"), [1, 0]),
        (AuditFilter(operation="put /CON"), [*range(9, -1, -1)]),
        (AuditFilter(outcome="refused"), []),
        (AuditFilter(subject="x"), []),
    ],
)
def test_filters_leave_out_all_others(log: Path, wanted: AuditFilter, found: list[int]) -> None:
    assert times(read_tail(log, wanted, 100)) == [f"00:0{each}" for each in found]


def test_what_stands_a_little_before_an_older_entry_is_found(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_bytes(b"".join(entry(each) for each in (9, 1, 7, 5, 8)))
    wanted = AuditFilter(since="2026-01-01T00:00:06.000Z")
    monkeypatch.setattr(tail, "_NEAR_BYTES", len(entry(1)))
    page = read_tail(log, wanted, 100)
    assert (times(page), page.rest) == (["00:08", "00:07"], None)


def test_what_is_read_at_once_is_bounded_and_nothing_is_lost_between(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "BYTES_MAX", 300)
    monkeypatch.setattr(tail, "_BLOCK_BYTES", 70)
    found, position, pages = [], None, 0
    while pages == 0 or position is not None:
        page = read_tail(log, AuditFilter(principal="p0"), 100, position)
        found += times(page)
        position = page.rest
        pages += 1
    assert found == ["00:08", "00:06", "00:04", "00:02", "00:00"]
    assert pages > 3


def test_a_time_in_a_large_file_is_found_without_reading_it(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_bytes(b"".join(entry(each) for each in range(3500)))
    monkeypatch.setattr(tail, "BYTES_MAX", 4000)
    monkeypatch.setattr(tail, "_NEAR_BYTES", 1000)
    monkeypatch.setattr(tail, "_BLOCK_BYTES", 500)
    page = read_tail(log, AuditFilter(until="2026-01-01T00:20:00.000Z"), 2)
    assert times(page) == ["19:59", "19:58"]


def test_torn_lines_are_passed_over_and_sensitive_parameters_are_masked(log: Path) -> None:
    log.write_bytes(
        entry(1, options={"key": "owner", "value": "secret", "query": "secret"}) + b'{"time":"20\n\xff\n'
        + entry(2)[:-1]
    )  # fmt: skip
    newest, oldest = read_tail(log, AuditFilter(), 100).entries
    assert newest.time[14:19] == "00:02"
    assert oldest.members["options"] == {"key": "owner", "value": tail.MASK, "query": tail.MASK}


def test_a_position_in_a_file_that_was_rotated_is_refused(log: Path) -> None:
    state = log.stat()
    for position in (Position(state.st_ino + 1, 10), Position(state.st_ino, state.st_size + 1)):
        with pytest.raises(Rotated):
            read_tail(log, AuditFilter(), 1, position)
    log.write_bytes(b"")
    assert read_tail(log, AuditFilter(), 1) == tail.AuditPage([], Position(state.st_ino, 0))


@pytest.mark.parametrize("at", [-(2**63), -1, 0, 1, 150])
def test_a_forged_position_leads_to_whole_entries_of_the_file_only(log: Path, at: int) -> None:
    whole = log.read_bytes().splitlines()
    found = read_tail(log, AuditFilter(), 100, Position(log.stat().st_ino, at))
    before = whole[: max(0, at) // len(whole[0])]
    assert [msgspec.json.encode(each.members) for each in found.entries] == before[::-1]
