"""Destinations of the audit log."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from registry.audit.sinks import CHECK_EVERY_S, FileSink


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def close(sink: FileSink) -> None:
    asyncio.run(sink.close(1.0))


def test_lines_are_appended_to_what_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for text in (b"one\n", b"two\n"):
        sink = FileSink(path)
        sink.write(text)
        close(sink)
    assert path.read_bytes() == b"one\ntwo\n"


def test_only_the_user_of_the_registry_can_read_the_file(tmp_path: Path) -> None:
    close(FileSink(tmp_path / "audit.jsonl"))
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize("remade", [False, True])
def test_a_rotated_file_is_opened_again(tmp_path: Path, remade: bool) -> None:
    path, old, clock = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1", Clock()
    sink = FileSink(path, clock)
    sink.write(b"before\n")
    path.rename(old)
    if remade:
        path.touch()
    sink.write(b"at once\n")
    clock.now += CHECK_EVERY_S
    sink.write(b"after\n")
    close(sink)
    assert (old.read_bytes(), path.read_bytes()) == (b"before\nat once\n", b"after\n")


def test_lines_of_several_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sinks = [FileSink(path) for _ in range(3)]
    for at in range(100):
        for number, sink in enumerate(sinks):
            sink.write(b"%d-%d\n" % (number, at))
    for sink in sinks:
        close(sink)
    lines = path.read_bytes().splitlines()
    assert sorted(lines) == sorted(b"%d-%d" % (number, at) for number in range(3) for at in range(100))


def test_a_full_disk_loses_lines_and_counts_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = FileSink("/dev/full")
    sink.write(b"lost\n")
    assert sink.lost == 1
    assert "cannot write to the audit log /dev/full: No space left on device" in caplog.text
    close(sink)
