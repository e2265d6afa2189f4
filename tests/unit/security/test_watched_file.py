"""Watched files: a valid new content is used, an invalid one never replaces what is in use."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from registry.security.watched_file import FileError, WatchedFile
from tests.support.running import until_async


def number(content: bytes) -> int:
    if not content.strip().isdigit():
        raise FileError("is not a number", line=1)
    return int(content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "number"
    path.write_bytes(b"1")
    return path


def checked(watched: WatchedFile[int], times: int = 3) -> int:
    """Return the value after so many checks as a change takes, and one more."""

    async def check() -> None:
        for _ in range(times):
            await watched.check()

    asyncio.run(check())
    return watched.value


def test_a_changed_file_is_used_and_announced_once(path: Path) -> None:
    changes: list[int] = []
    watched = WatchedFile(path, number, changed=lambda: changes.append(1))
    assert (watched.value, watched.revision) == (1, 1)
    path.write_bytes(b"2")
    assert checked(watched) == 2
    assert checked(watched) == 2
    assert (watched.revision, watched.error, changes) == (2, "", [1])


def test_a_file_replaced_by_another_of_the_same_size_and_time_is_used(path: Path) -> None:
    watched = WatchedFile(path, number)
    checked(watched)
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(b"3")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert checked(watched) == 3


def test_a_change_right_after_the_first_reading_is_not_missed(path: Path) -> None:
    """It may have the same modification time, where a file system's clock is coarse."""
    watched = WatchedFile(path, number)
    before = path.stat()
    path.write_bytes(b"4")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert checked(watched) == 4


def test_a_file_being_written_is_read_when_it_rests(path: Path) -> None:
    watched = WatchedFile(path, number)
    checked(watched)
    path.write_bytes(b"55")
    checked(watched, 1)
    path.write_bytes(b"555")
    assert checked(watched, 1) == 1
    assert checked(watched, 1) == 555


def test_an_invalid_content_keeps_the_old_and_is_logged_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = WatchedFile(path, number)
    path.write_bytes(b"six")
    with caplog.at_level(logging.ERROR):
        assert checked(watched) == 1
        assert checked(watched) == 1
    assert watched.revision == 1
    assert watched.error == f"{path}, line 1: is not a number"
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}, line 1: is not a number; keeping the previous content"
    ]
    path.write_bytes(b"1")
    checked(watched)
    assert (watched.error, watched.revision) == ("", 1)


def test_a_removed_file_keeps_its_value_and_may_come_back(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = WatchedFile(path, number)
    path.unlink()
    with caplog.at_level(logging.ERROR):
        assert checked(watched, 5) == 1
    assert watched.error == f"{path}: cannot be read: No such file or directory"
    assert len(caplog.records) == 1
    path.write_bytes(b"7")
    assert checked(watched) == 7
    assert watched.error == ""


@pytest.mark.parametrize("hostile", ["pipe", "folder", "huge"])
def test_what_is_no_file_of_a_plausible_size_is_refused_without_waiting(path: Path, hostile: str) -> None:
    watched = WatchedFile(path, number, bytes_max=10)
    path.unlink()
    if hostile == "pipe":
        os.mkfifo(path)
    elif hostile == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"1" * 11)
    assert checked(watched) == 1
    reason = "is larger than 10 bytes" if hostile == "huge" else "is not a regular file"
    assert watched.error == f"{path}: {reason}"
    with pytest.raises(FileError, match=reason):
        WatchedFile(path, number, bytes_max=10)


def test_a_first_content_has_to_be_valid(path: Path) -> None:
    path.write_bytes(b"x")
    with pytest.raises(FileError, match=rf"{path}, line 1: is not a number"):
        WatchedFile(path, number)


def test_watching_goes_on_after_an_error_in_the_parser(path: Path) -> None:
    parsed: list[bytes] = []

    def fragile(content: bytes) -> int:
        parsed.append(content)
        return int(content)

    async def watch() -> None:
        watched = WatchedFile(path, fragile)
        watching = asyncio.create_task(watched.watch(every_s=0.001))
        await asyncio.to_thread(path.write_bytes, b"x")
        await until_async(lambda: parsed[-1] == b"x", "the parser to fail")
        await asyncio.to_thread(path.write_bytes, b"8")
        await until_async(lambda: watched.value == 8, "the new value")
        watching.cancel()

    asyncio.run(watch())
