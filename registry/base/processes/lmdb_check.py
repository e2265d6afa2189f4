"""LMDB files: checking them in a child process, and knowing when this process has ceased to read one.

LMDB maps its file and keeps no checksums of its pages: reading a truncated or overwritten file does not raise
an error but kills the process. So files are examined in a short-lived child process first, and a crash of the
child is a finding like any other.

The child prints a line for each finding (``F``), for its progress (``P``) and for what else it says of the
files (``S``), and ends with ``E``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
from lmdb import verify

DATA = "data.mdb"
# The structure of every page is verified at the start in files up to this size, at about 60 µs a page.
STRUCTURE_BYTES_MAX = 8 << 20
# The most that an examination takes, in seconds.
EXAMINED_S = 120.0
# How long the reads of this process are waited for.
_VIEWS_END_S = 0.5
_LOOK_S = 0.001

_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}


def views_have_ended(env: lmdb.Environment) -> bool:
    """Wait a moment for the read transactions of this process to end; return true if none is open.

    The caller sees to it that none begins. An environment that is closed under one ends the process.
    """
    end = time.monotonic() + _VIEWS_END_S
    while _has_views(env):
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_S)
    return True


def _has_views(env: lmdb.Environment) -> bool:
    readers = (line.split() for line in env.readers().splitlines())
    return any(words[0] == str(os.getpid()) and words[-1] != "-" for words in readers if words)


class CannotExamine(Exception):
    """The examination itself failed, which says nothing about the files."""


class Examination:
    """A run of ``python -m module path``, which begins at once: who asks for its result waits for that.

    Raises :class:`CannotExamine`.
    """

    def __init__(self, module: str, path: Path) -> None:
        command, environment = _command(module, str(path))
        self._path = path
        self._output: tuple[list[str], str] | None = None
        try:
            self._child = subprocess.Popen(  # noqa: S603 (our own module and a path from the settings)
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
            )
        except OSError as error:
            raise CannotExamine(f"{path} could not be examined: {error}") from error

    def _wait(self, timeout_s: float) -> tuple[list[str], str]:
        if self._output is None:
            try:
                out, errors = self._child.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                self._child.kill()
                self._child.communicate()
                raise CannotExamine(f"{self._path} could not be examined: {error}") from error
            said = errors.decode(errors="replace")[-2000:].strip()
            self._output = out.decode(errors="replace").splitlines(), said
        return self._output

    def discard(self) -> None:
        """End it, because its result is not wanted; a no-op if it is known."""
        if self._output is None:
            self._child.kill()
            self._child.communicate()
            self._output = [], ""

    def facts(self, timeout_s: float = EXAMINED_S) -> list[str]:
        """Return what the child has said by :func:`say`."""
        return _with_mark("S ", self._wait(timeout_s)[0])

    def findings(self, timeout_s: float = EXAMINED_S) -> list[str]:
        """Return the findings; none means that no damage was seen."""
        lines, said = self._wait(timeout_s)
        code, findings = self._child.returncode, _with_mark("F ", lines)
        if -code in _CRASHES:
            last = next(reversed(_with_mark("P ", lines)), "its first page")
            return [*findings, f"reading its pages fails ({signal.Signals(-code).name}) after {last}"]
        if code or not lines or lines[-1] != "E":
            raise CannotExamine(f"{self._path} could not be examined: {said or f'exit code {code}'}")
        return findings


def _with_mark(mark: str, lines: list[str]) -> list[str]:
    return [line[len(mark) :] for line in lines if line.startswith(mark)]


def examine(module: str, path: Path) -> list[str]:
    """Run ``python -m module path`` and return its findings, see :class:`Examination`."""
    return Examination(module, path).findings()


def ask(module: str, *arguments: str) -> str | None:
    """Return the output of ``python -m module``; ``None`` if it fails for any reason."""
    command, environment = _command(module, *arguments)
    child = subprocess.run(  # noqa: S603 (our own module and a path from the settings)
        command, capture_output=True, env=environment, check=False
    )
    return None if child.returncode else child.stdout.decode().strip()


def _command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    from .child_process import module_command  # noqa: PLC0415 (it would take a child half of its life)

    return module_command(module, *arguments)


def progress(text: str) -> None:
    """Print, in the child, what it has read so far, in case it crashes next."""
    os.write(1, b"P %s\n" % text.encode())


def say(text: str) -> None:
    """Print, in the child, something about files that may be in order."""
    os.write(1, b"S %s\n" % text.encode())


def report(look: Callable[[Path], Iterator[str]]) -> None:
    """Print, in the child, what ``look`` finds at the path on the command line."""
    try:
        for finding in look(Path(sys.argv[1])):
            os.write(1, b"F %s\n" % finding.replace("\n", " ").encode())
    except OSError as error:  # Not readable, or a disk error: this says nothing about the content.
        sys.exit(f"{error.strerror or error}: {error.filename}")
    os.write(1, b"E\n")


def file_findings(path: Path) -> Iterator[str]:
    """Yield what is wrong with the file itself, without mapping it. Raises :class:`OSError`."""
    file = path / DATA
    try:
        file.open("rb").close()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        yield f"{file.name} is missing"
        return
    if file.stat().st_size > STRUCTURE_BYTES_MAX:
        return
    try:
        findings = verify.verify(str(path))  # type: ignore[no-untyped-call]
    except verify.VerifyError as error:
        yield f"{file.name}: {error}"
        return
    lost = (finding for finding in findings[:10] if "leak" not in finding)  # A leaked page is only wasted.
    yield from (f"{file.name}: {finding}" for finding in lost)


def read_only(path: Path, tables: int) -> lmdb.Environment:
    """Open the environment at ``path``, which no process may write meanwhile. Raises :class:`lmdb.Error`."""
    return lmdb.open(str(path), max_dbs=tables, readonly=True, lock=False, create=False, map_size=0)


def look_inside(
    path: Path, tables: int, inside: Callable[[lmdb.Environment], Iterator[str]]
) -> Iterator[str]:
    """Yield what is wrong with the file itself, or else what ``inside`` finds in the environment."""
    broken = False
    for finding in file_findings(path):
        broken = True
        yield finding
    if broken:
        return
    try:
        with read_only(path, tables) as env:
            yield from inside(env)
    except lmdb.Error as error:
        yield f"LMDB cannot read it: {error}"


def is_short(path: Path, page_bytes: int, last_page: int) -> bool:
    """Return whether the file ends before its last page; free pages may lie beyond the end."""
    return (path / DATA).stat().st_size < (last_page + 1) * page_bytes
