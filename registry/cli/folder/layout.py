"""Paths of the files in a folder: where people put them, or named after their subjects."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from registry.domain.schemas import extension_of

from .contents import Contents

# Together with a hash and an extension below the 255 bytes that file systems allow.
_BYTES_MAX: Final = 200
# The empty subject; no other name is written like this.
_EMPTY: Final = "%"
# Names that Windows reserves for devices.
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def file_names(subjects: Iterable[str]) -> dict[str, str]:
    """Return a file name without an extension for each subject; no two differ only in case.

    Names that had to be cut or that would clash end in a hash; :func:`subject_of` cannot read these.
    """
    quoted = {subject: _quote(subject) for subject in subjects}
    count = Counter(name.casefold() for name in quoted.values())
    return {
        subject: _hash(subject, name) if count[name.casefold()] > 1 or len(name) > _BYTES_MAX else name
        for subject, name in quoted.items()
    }


def subject_of(name: str) -> str | None:
    """Return the subject that a file name without its extension stands for; ``None`` if it is cut."""
    if name == _EMPTY:
        return ""
    if "%~" in name:
        return None
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeError:  # also of a name on disk that is not UTF-8
        return None


def _quote(subject: str) -> str:
    name = quote(subject, safe=" @+=,!()'") or _EMPTY
    # Hidden files, parent folders, and names of versions.
    if name.startswith((".", " ")) or name.isdecimal() or _DEVICES.match(name):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    # Windows drops blanks and full stops at the end.
    if name.endswith((".", " ")):
        name = f"{name[:-1]}%{ord(name[-1]):02X}"
    return name


def _hash(subject: str, name: str) -> str:
    return f"{name[:_BYTES_MAX]}%~{hashlib.sha256(subject.encode()).hexdigest()[:16]}"


class Layout:
    """The files that a folder has already, and paths for further ones."""

    def __init__(self, present: Contents, subjects: Collection[str]) -> None:
        """``subjects``: those that are to be written."""
        self._names = file_names(subjects)
        self._files = {
            subject: {each.number: each.origin for each in versions}
            for subject, versions in present.versions.items()
        }

    def name(self, subject: str) -> str:
        """Return the name of a subject's file, without its extension."""
        return self._names[subject]

    def is_numbered(self, subject: str) -> bool:
        """Return true if the subject's versions are in files of their own."""
        return bool(self._files.get(subject)) and 0 not in self._files[subject]

    def path(self, subject: str, number: int, schema_type: str) -> str:
        """Return the path of a version; number 0 is the subject's only one."""
        extension, files = extension_of(schema_type), self._files.get(subject, {})
        if number in files:
            return str(PurePosixPath(files[number]).with_suffix(extension))
        if not files:
            parent = PurePosixPath()
        elif 0 in files:
            parent = PurePosixPath(files[0]).parent
        elif (folder := PurePosixPath(next(iter(files.values()))).parent).name == self._names[subject]:
            return str(folder / f"{number}{extension}")
        else:
            parent = folder
        name = self._names[subject]
        return str(parent / f"{name}/{number}{extension}" if number else parent / f"{name}{extension}")

    def replaced_files(self, written: Mapping[str, Collection[int]], paths: Collection[str]) -> list[str]:
        """Return the files of versions that were written to other paths."""
        return [
            path
            for subject, numbers in written.items()
            for number, path in self._files.get(subject, {}).items()
            if path not in paths and (number == 0 or number in numbers)
        ]
