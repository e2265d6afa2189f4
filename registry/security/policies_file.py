"""The file of policies, watched while the process runs."""

from __future__ import annotations

from registry.domain.policies import NO_POLICIES, Policies, PolicyError, parse

from .watched_file import FileError, WatchedFile


class PoliciesFile:
    """The policies in force; without a file there are none."""

    def __init__(self, path: str) -> None:
        """Read the file at ``path``, if that is not empty. Raises :class:`FileError`."""
        self._file = WatchedFile(path, _parse) if path else None

    def current(self) -> Policies:
        """Return the policies in force; may be called from any thread."""
        return NO_POLICIES if self._file is None else self._file.value

    async def watch(self) -> None:
        """Read the file again when it changes, until cancelled; without a file, return at once."""
        if self._file is not None:
            await self._file.watch()


def _parse(content: bytes) -> Policies:
    try:
        return parse(content.decode())
    except (UnicodeDecodeError, PolicyError) as error:
        raise FileError(str(error)) from None
