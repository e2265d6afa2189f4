"""The file of policies, watched while the process runs."""

from __future__ import annotations

from collections.abc import Callable

from registry.domain.governance import Governance, PolicyError, parse

from .watched_file import FileError, WatchedFile


def watched_policies(path: str, changed: Callable[[], None] = lambda: None) -> WatchedFile[Governance]:
    """Return the policies in the file at ``path``; ``changed`` is called after each change.

    Raises :class:`FileError`.
    """
    return WatchedFile(path, _parse, changed=changed)


def _parse(content: bytes) -> Governance:
    try:
        return parse(content.decode())
    except (UnicodeDecodeError, PolicyError) as error:
        raise FileError(str(error)) from None
