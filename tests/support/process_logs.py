"""The logs of the processes that tests start: an error in one fails the test that did not ask for it.

A test that provokes errors says so with the marker ``logs_errors``, whose arguments are patterns of the
errors that it may cause, each an error's line and traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

# The beginning of a line in either format of log lines (registry/base/observe/logs.py), and its level.
_LINE = re.compile(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (\w+) |\{"ts":"[^"]*","level":"(\w+)"')
_TRACEBACK = "Traceback (most recent call last)"


def errors(text: str) -> Iterator[str]:
    """Yield the errors in a log, and tracebacks, each with the lines up to the next one with a level."""
    lines: list[str] = []
    for line in [*text.splitlines(), None]:
        if lines and (line is None or _begins_entry(line)):
            entry = "\n".join(lines)
            if _is_error(entry):
                yield entry
            lines = []
        if line is not None:
            lines.append(line)


def _begins_entry(line: str) -> bool:
    return _LINE.match(line) is not None


def _is_error(entry: str) -> bool:
    level = _LINE.match(entry)
    return _TRACEBACK in entry or (level is not None and (level[1] or level[2]) == "error")


class ProcessLogs:
    """Reads what was printed to files since the last reading."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}

    def new_errors(self, paths: Sequence[Path]) -> list[str]:
        """Return the errors in whole lines that were not read before; a file that is gone has none."""
        return [error for path in paths for error in errors(self._new_text(path))]

    def _new_text(self, path: Path) -> str:
        begin = self._read.get(path, 0)
        if not path.exists() or path.stat().st_size <= begin:
            return ""
        with path.open("rb") as file:
            file.seek(begin)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read[path] = begin + len(whole) + len(newline)
        return whole.decode(errors="replace")


def unexpected(found: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the errors that no pattern matches."""
    return [error for error in found if not any(re.search(pattern, error) for pattern in patterns)]
