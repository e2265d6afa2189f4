"""Destinations of the audit log that take each line at once: a file, and standard output.

A line that they do not take is counted as lost and logged; the request goes on. A slow disk, or a pipe that
nobody reads, delays the process.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from registry.observe.logs import Throttled

CHECK_EVERY_S = 1.0
STDOUT_FILE = 1
_log = logging.getLogger(__name__)


class Sink(Protocol):
    """Takes lines; all calls come from one event loop."""

    # Lines that could not be written.
    lost: int

    def write(self, line: bytes) -> None:
        """Take one line, which ends with a line feed."""
        ...

    async def close(self, grace_s: float) -> None:
        """Write what waits, for up to ``grace_s`` seconds."""
        ...


class StdoutSink:
    """Prints to standard output, or to the descriptor ``file``."""

    def __init__(self, file: int = STDOUT_FILE) -> None:
        self.lost = 0
        self._file = file
        self._failures = Throttled(_log)
        # True if the output ends within a line, of which the rest is lost.
        self._torn = False

    def write(self, line: bytes) -> None:
        """Print one line, at once."""
        text = b"\n" + line if self._torn else line
        try:
            written = os.write(self._file, text)
        except OSError as error:
            self._lose(error.strerror or str(error))
            return
        if written < len(text):
            self._torn = not text[:written].endswith(b"\n")
            self._lose("only a part of an entry was written")
        else:
            self._torn = False

    async def close(self, grace_s: float) -> None:
        """Do nothing: every line was written."""

    def _lose(self, reason: str) -> None:
        self.lost += 1
        self._failures.error("cannot print the audit log: %s", reason)


class FileSink(StdoutSink):
    """Appends to a file, which other processes append to as well, and opens it again when it was rotated."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the file, readable only for its user. Raises :class:`OSError`."""
        self._path = Path(path)
        super().__init__(self._open())
        self._clock = clock
        self._checked = clock()

    def write(self, line: bytes) -> None:
        """Append one line, at once."""
        try:
            if self._clock() - self._checked >= CHECK_EVERY_S:
                self._reopen()
            if self._torn:  # unless another process has begun a line since then
                self._torn = _ends_within_a_line(self._path)
        except OSError as error:
            self._lose(error.strerror or str(error))
            return
        super().write(line)

    async def close(self, grace_s: float) -> None:
        """Close the file."""
        self.release()

    def release(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _reopen(self) -> None:
        self._checked = self._clock()
        with suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), os.fstat(self._file)):
                return
        new = self._open()
        os.close(self._file)
        self._file, self._torn = new, False

    def _lose(self, reason: str) -> None:
        self.lost += 1
        # Also if nothing was written: another process may have torn a line on the same full disk.
        self._torn = True
        self._failures.error("cannot write to the audit log %s: %s", self._path, reason)


def _ends_within_a_line(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:  # it is empty, or no file
        return False
