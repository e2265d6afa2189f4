"""Files that may change while a process runs: users, rules, keys, certificates and policies."""

from __future__ import annotations

import asyncio
import logging
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from registry.domain.policies import NO_POLICIES, Policies, PolicyError, parse

CHECK_EVERY_S = 1.0
BYTES_MAX = 4 * 1024 * 1024

T = TypeVar("T")
_log = logging.getLogger(__name__)


class FileError(ValueError):
    """A file that cannot be read or parsed: the reason, and the line where it is known, from 1."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class _Identity(NamedTuple):
    """Properties that differ between two contents of a path."""

    modified_ns: int
    size: int
    inode: int
    device: int


class WatchedFile(Generic[T]):
    """The parsed content of a file, replaced when the file changes.

    Only a complete, valid content replaces the previous one. A broken or missing file keeps it, and is
    logged once per change. All methods are called on one event loop; files are read and parsed in a thread.
    """

    def __init__(
        self,
        path: str | Path,
        parse: Callable[[bytes], T],
        *,
        changed: Callable[[], None] = lambda: None,
        bytes_max: int = BYTES_MAX,
        quiet: bool = False,
    ) -> None:
        """Read the file.

        ``parse`` is pure, because it is called in a thread, and raises :class:`FileError`. ``changed`` is
        called on the event loop after each new value. ``quiet``: log nothing, because others do. Raises
        :class:`FileError`, with the path in its text, if there is no valid content to begin with.
        """
        self.path = Path(path)
        self.error = ""  # why the file's present content is not used
        self.revision = 1  # grows with each new value
        self._parse = parse
        self._changed = changed
        self._bytes_max = bytes_max
        self._quiet = quiet
        self._content = b""
        self._seen: _Identity | None = None  # at the last check
        self._read: _Identity | None = None  # of the content that was read last
        try:
            self._content = self._bytes()
            self.value = parse(self._content)
        except FileError as error:
            raise FileError(self._error_at(error), error.line) from error

    async def watch(self, every_s: float = CHECK_EVERY_S) -> None:
        """Check the file again and again until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.check()
            except Exception:
                _log.exception("unexpected error in %s; keeping its previous content", self.path)

    async def check(self) -> None:
        """Take the file's new content, if it has changed and not been written to since the last check.

        Waiting for one check avoids reading a file that is half written, and a change that the file system's
        clock is too coarse to distinguish from the previous one.
        """
        try:
            identity = await asyncio.to_thread(self._identity)
            if identity == self._read:
                return
            if identity != self._seen:
                self._seen = identity
                return
            self._read = identity  # also if it is invalid: it is parsed and logged once
            content = await asyncio.to_thread(self._bytes)
        except FileError as error:
            self._seen = self._read = None
            self._keep(error)
            return
        if content == self._content:
            self.error = ""
            return
        try:
            value = await asyncio.to_thread(self._parse, content)
        except FileError as error:
            self._keep(error)
        else:
            self._take(content, value)

    def _identity(self) -> _Identity:
        try:
            found = self.path.stat()
        except OSError as error:
            raise FileError(f"cannot be read: {error.strerror or error}") from None
        # Opening a pipe would wait for its writer.
        if not stat.S_ISREG(found.st_mode):
            raise FileError("is not a regular file")
        return _Identity(found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)

    def _bytes(self) -> bytes:
        self._identity()
        try:
            with self.path.open("rb") as file:
                content = file.read(self._bytes_max + 1)
        except OSError as error:
            raise FileError(f"cannot be read: {error.strerror or error}") from None
        if len(content) > self._bytes_max:
            raise FileError(f"is larger than {self._bytes_max} bytes")
        return content

    def _take(self, content: bytes, value: T) -> None:
        self._content, self.value, self.error = content, value, ""
        self.revision += 1
        if not self._quiet:
            _log.info("%s has changed; its new content is in use", self.path)
        self._changed()

    def _keep(self, error: FileError) -> None:
        reason = self._error_at(error)
        if reason != self.error:
            self.error = reason
            if not self._quiet:
                _log.error("%s; keeping the previous content", reason)

    def _error_at(self, error: FileError) -> str:
        if error.line:
            return f"{self.path}, line {error.line}: {error.reason}"
        return f"{self.path}: {error.reason}"


_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)$")
_POLICY = re.compile(r"policy (\d+): ")
_TABLE = re.compile(rb"^[ \t]*\[\[[ \t]*policy[ \t]*\]\]", re.MULTILINE)


class PoliciesFile:
    """The policies in force; without a file there are none."""

    def __init__(self, path: str) -> None:
        """Read the file at ``path``, if that is not empty. Raises :class:`FileError`."""
        self._file = WatchedFile(path, parse_policies) if path else None

    def current(self) -> Policies:
        """Return the policies in force; may be called from any thread."""
        return NO_POLICIES if self._file is None else self._file.value

    async def watch(self) -> None:
        """Read the file again when it changes, until cancelled; without a file, return at once."""
        if self._file is not None:
            await self._file.watch()


def parse_policies(content: bytes) -> Policies:
    """Return the policies in a file's content. Raises :class:`FileError`."""
    try:
        return parse(content.decode())
    except UnicodeDecodeError as error:
        raise FileError("is not UTF-8", content.count(b"\n", 0, error.start) + 1) from None
    except PolicyError as error:
        raise FileError(str(error), _line(str(error), content)) from None


def _line(reason: str, content: bytes) -> int:
    """Return the line that a reason is about; 0 if it is about the whole file."""
    if at := _AT_LINE.search(reason):
        return int(at[1])
    if (policy := _POLICY.match(reason)) is None:
        return 0
    begins = [content.count(b"\n", 0, found.start()) + 1 for found in _TABLE.finditer(content)]
    number = int(policy[1])
    return begins[number - 1] if number <= len(begins) else 0
