"""Lines of the audit log."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from registry.audit.log import TEXT_MAX, FileEntry, RequestEntry, line

MOMENT = datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)
WRITE = RequestEntry(
    "POST /subjects/{subject}/versions", "r-1", "alice", "192.0.2.1", "orders", 200, offset=7
)


def test_a_write_is_one_line_with_all_that_happened() -> None:
    assert line(WRITE, MOMENT) == (
        b'{"time":"2026-01-31T12:00:00.123Z","event":"request",'
        b'"operation":"POST /subjects/{subject}/versions","request_id":"r-1","principal":"alice",'
        b'"address":"192.0.2.1","subject":"orders","status":200,"error_code":0,"offset":7,"outcome":"done"}\n'
    )


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (200, 0, "done"),
        (403, 40301, "refused"),
        (503, 503, "refused"),
        (500, 50002, "unknown"),
        (0, 0, "unknown"),
    ],
)
def test_an_outcome_says_if_something_was_done(status: int, code: int, outcome: str) -> None:
    entry = WRITE._replace(status=status, error_code=code)
    assert json.loads(line(entry, MOMENT))["outcome"] == outcome


@pytest.mark.parametrize(
    "hostile", ['x\n{"principal":"root"}', "\r\x1b[2J", "\u2028\u2029\x85\x9b", "\ud800", 'a"b\\c', "\x00"]
)
def test_what_clients_send_stays_within_its_member(hostile: str) -> None:
    entry = WRITE._replace(subject=hostile, request_id=hostile, principal=hostile, address=hostile)
    text = line(entry, MOMENT)
    assert text.count(b"\n") == 1
    assert text.endswith(b"}\n")
    assert all(32 <= each < 127 for each in text[:-1])
    assert json.loads(text)["subject"] == hostile


def test_an_entry_names_what_was_changed_and_how() -> None:
    target = {"resourceId": "r\u2028", "subjects": ["a"]}
    found = json.loads(line(WRITE._replace(target=target, options={"dryRun": True}, requests=3), MOMENT))
    assert found["target"] == target
    assert (found["options"], found["requests"]) == ({"dryRun": True}, 3)


def test_a_part_of_a_batch_that_failed_was_refused() -> None:
    assert WRITE._replace(status=207, error_code=40903).outcome == "refused"
    assert WRITE._replace(status=207).outcome == "done"
    assert WRITE._replace(status=207, error_code=50002).outcome == "unknown"


def test_a_long_text_is_cut() -> None:
    text = line(WRITE._replace(subject="x" * 100_000), MOMENT)
    assert json.loads(text)["subject"] == "x" * TEXT_MAX


def test_a_changed_file_is_a_line_of_its_own() -> None:
    text = json.loads(line(FileEntry("users", "/etc/registrar/users", "00ff"), MOMENT))
    assert text == {
        "time": "2026-01-31T12:00:00.123Z",
        "event": "file",
        "setting": "users",
        "path": "/etc/registrar/users",
        "sha256": "00ff",
    }
