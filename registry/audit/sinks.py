"""Destinations of the audit log that take each line at once: a file, and standard output.

Their calls last as long as the disk or the reader of the pipe takes, so :class:`.waiting.WaitingSink` calls
them in a thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

CHECK_EVERY_S = 1.0
STDOUT_FILE = 1


class Sink(Protocol):
    """Takes lines; all calls come from one event loop."""

    @property
    def lost(self) -> int:
        """Number of lines that could not be written."""
        ...

    def write(self, line: bytes, *, awaited: bool = False) -> None:
        """Take one line, which ends with a line feed; ``awaited``: an answer will wait for it."""
        ...

    async def written(self) -> None:
        """Wait until the lines are written, if answers have to wait for that."""
        ...

    async def close(self, grace_s: float) -> None:
        """Write what waits, for up to ``grace_s`` seconds."""
        ...


class Output(Protocol):
    """Takes lines, and waits until they are written; all calls come from one thread."""

    # For messages.
    name: str

    def put(self, line: bytes) -> str:
        """Write one line, which ends with a line feed; return why that failed, or nothing."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Stdout:
    """Standard output, or the descriptor ``file``."""

    name = "standard output"

    def __init__(self, file: int = STDOUT_FILE) -> None:
        self._file = file
        # True if the output ends within a line, of which the rest is lost.
        self._torn = False

    def put(self, line: bytes) -> str:
        """Print one line."""
        text = b"\n" + line if self._torn else line
        try:
            written = os.write(self._file, text)
        except OSError as error:
            return error.strerror or str(error)
        self._torn = written < len(text) and not text[:written].endswith(b"\n")
        return "only a part of an entry was written" if written < len(text) else ""

    def close(self) -> None:
        """Do nothing: others print as well."""


class File(Stdout):
    """A file, to which other processes append as well; it is opened again when it was rotated."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the file, readable only for its user. Raises :class:`OSError`."""
        self._path = Path(path)
        self.name = str(path)
        super().__init__(self._open())
        self._clock = clock
        self._checked = clock()

    def put(self, line: bytes) -> str:
        """Append one line."""
        try:
            if self._clock() - self._checked >= CHECK_EVERY_S:
                self._reopen()
            if self._torn:  # unless another process has begun a line since then
                self._torn = _ends_within_a_line(self._path)
        except OSError as error:
            problem = error.strerror or str(error)
        else:
            problem = super().put(line)
        if problem:
            # Also if nothing was written: another process may have torn a line on the same full disk.
            self._torn = True
        return problem

    def close(self) -> None:
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


def _ends_within_a_line(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:  # it is empty, or no file
        return False
