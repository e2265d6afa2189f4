"""Destinations of the audit log."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from registry.audit.sinks import CHECK_EVERY_S, File, Stdout
from tests.support.disks import Disk


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_lines_are_appended_to_what_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for text in (b"one\n", b"two\n"):
        sink = File(path)
        sink.put(text)
        sink.close()
    assert path.read_bytes() == b"one\ntwo\n"


def test_only_the_user_of_the_registry_can_read_the_file(tmp_path: Path) -> None:
    File(tmp_path / "audit.jsonl").close()
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize("remade", [False, True])
def test_a_rotated_file_is_opened_again(tmp_path: Path, remade: bool) -> None:
    path, old, clock = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1", Clock()
    sink = File(path, clock)
    sink.put(b"before\n")
    path.rename(old)
    if remade:
        path.touch()
    sink.put(b"at once\n")
    clock.now += CHECK_EVERY_S
    sink.put(b"after\n")
    sink.close()
    assert (old.read_bytes(), path.read_bytes()) == (b"before\nat once\n", b"after\n")


def test_lines_of_several_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sinks = [File(path) for _ in range(3)]
    for at in range(100):
        for number, sink in enumerate(sinks):
            sink.put(b"%d-%d\n" % (number, at))
    for sink in sinks:
        sink.close()
    lines = path.read_bytes().splitlines()
    assert sorted(lines) == sorted(b"%d-%d" % (number, at) for number in range(3) for at in range(100))


def test_a_full_disk_takes_no_lines_and_says_why() -> None:
    sink = File("/dev/full")
    assert sink.put(b"lost\n") == "No space left on device"
    sink.close()


def test_a_line_of_which_a_full_disk_takes_a_part_is_lost_and_stays_apart(tmp_path: Path) -> None:
    with Disk(tmp_path / "disk") as disk:
        path = disk.place / "audit.jsonl"
        sinks = [File(path) for _ in range(2)]
        sinks[0].put(b"first\n")
        disk.fill()  # except for the rest of the first page
        assert sinks[0].put(b"torn" * 10_000 + b"\n") == "only a part of an entry was written"
        assert sinks[1].put(b"lost\n") == "No space left on device"
        disk.free()
        for sink in reversed(sinks):
            sink.put(b"whole\n")
            sink.close()
        first, torn, *rest = path.read_bytes().split(b"\n")
        assert (first, torn[:4], rest) == (b"first", b"torn", [b"whole", b"whole", b""])


def test_a_line_of_which_a_pipe_takes_a_part_is_lost_and_stays_apart() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    sink = Stdout(writing)
    long = b"x" * 200_000 + b"\n"  # more than a pipe holds
    assert sink.put(long) == "only a part of an entry was written"
    assert sink.put(long)
    torn = os.read(reading, 1 << 20)
    for _ in range(2):
        sink.put(b"whole\n")
    assert torn == long[: len(torn)]
    assert os.read(reading, 100) == b"\nwhole\nwhole\n"
    for end in (reading, writing):
        os.close(end)
