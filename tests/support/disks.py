"""Real file systems that fill up or become read-only while processes use them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

import pytest

from deploy.local.process import until

# The maximum size of a file system in memory; it only takes what is written.
ROOM = 4 << 30


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def mounts() -> bool:
    """Return true if this process may mount file systems: as root, outside of most containers."""
    return (
        os.geteuid() == 0
        and _run("unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt").returncode == 0
    )


class Disk:
    """A file system in memory at ``place``, which is filled up and gets room again while it is in use.

    The test is skipped where nothing can be mounted.
    """

    def __init__(self, place: Path) -> None:
        self.place = place

    def __enter__(self) -> Self:
        if not mounts():
            pytest.skip("mounting a file system of the test's own is not permitted here")
        self.place.mkdir(parents=True, exist_ok=True)
        self._mount("-t", "tmpfs", "-o", f"size={ROOM},mode=700", "registrar-test")
        return self

    def __exit__(self, *error: object) -> None:
        # Lazily, because a process that a failed test has left may still use it.
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)

    def fill(self) -> None:
        """Leave no room."""
        # Files that grow meanwhile make this size less than what is used: then mounting is refused and
        # retried.
        while self._resize(self._measure()).returncode:
            pass

    def free(self) -> None:
        """Give room again."""
        self._resize(ROOM).check_returncode()

    def _measure(self) -> int:
        stat = os.statvfs(self.place)
        return (stat.f_blocks - stat.f_bfree) * stat.f_frsize

    def _resize(self, size: int) -> subprocess.CompletedProcess[str]:
        return _run("mount", "-o", f"remount,size={size}", str(self.place))

    def _mount(self, *what: str) -> None:
        subprocess.run(["mount", *what, str(self.place)], check=True)


class FailingDisk:
    """An ext4 file system in a file, mounted at ``place``, which becomes read-only as after an I/O error.

    The test is skipped if that is not possible.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self._image = place.with_suffix(".ext4")
        self._device = ""

    def __enter__(self) -> Self:
        if not mounts():
            pytest.skip("mounting a file system of the test's own is not permitted here")
        self.place.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as image:
            image.truncate(256 << 20)
        # Without a journal, the file system can be mounted again as if nothing had happened.
        if _run("mkfs.ext4", "-q", "-O", "^has_journal", str(self._image)).returncode:
            pytest.skip("there is no mkfs.ext4, or it fails")
        self.mount()
        return self

    def __exit__(self, *error: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)

    def mount(self) -> None:
        """Mount it, writable."""
        if _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.place)).returncode:
            pytest.skip("there are no loop devices")
        self._device = Path(_run("findmnt", "-no", "SOURCE", str(self.place)).stdout.strip()).name

    def fail(self) -> None:
        """Report an error of the file system to the kernel, which makes it read-only at once."""
        Path(f"/sys/fs/ext4/{self._device}/trigger_fs_error").write_text("a test\n")

    def repair(self) -> None:
        """Mount it again, once killed processes have left it."""
        until(lambda: not _run("umount", str(self.place)).returncode, 30, "no process to use the disk")
        self.mount()
