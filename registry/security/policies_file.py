"""The file of policies, watched while the process runs."""

from __future__ import annotations

import re

from registry.domain.policies import NO_POLICIES, Policies, PolicyError, parse

from .watched_file import FileError, WatchedFile

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
