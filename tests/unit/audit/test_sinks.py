"""Destinations of the audit log."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from registry.audit.sinks import CHECK_EVERY_S, FileSink, StdoutSink
from tests.disks import Disk


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


def test_a_line_of_which_a_full_disk_takes_a_part_is_lost_and_stays_apart(tmp_path: Path) -> None:
    with Disk(tmp_path / "disk") as disk:
        path = disk.place / "audit.jsonl"
        sinks = [FileSink(path) for _ in range(2)]
        sinks[0].write(b"first\n")
        disk.fill()  # except for the rest of the first page
        sinks[0].write(b"torn" * 10_000 + b"\n")
        sinks[1].write(b"lost\n")
        assert [each.lost for each in sinks] == [1, 1]
        disk.free()
        for sink in reversed(sinks):
            sink.write(b"whole\n")
            close(sink)
        first, torn, *rest = path.read_bytes().split(b"\n")
        assert (first, torn[:4], rest) == (b"first", b"torn", [b"whole", b"whole", b""])


def test_a_line_of_which_a_pipe_takes_a_part_is_lost_and_stays_apart() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    sink = StdoutSink(writing)
    long = b"x" * 200_000 + b"\n"  # more than a pipe holds
    sink.write(long)
    sink.write(long)
    assert sink.lost == 2
    torn = os.read(reading, 1 << 20)
    for _ in range(2):
        sink.write(b"whole\n")
    assert torn == long[: len(torn)]
    assert os.read(reading, 100) == b"\nwhole\nwhole\n"
    for end in (reading, writing):
        os.close(end)
