"""Paths of the files in a folder: where people put them, or named after their subjects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath

from registry.domain.schemas import extension_of

from .contents import Contents
from .file_names import file_names


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

    def replaced(self, written: Mapping[str, Collection[int]], paths: Collection[str]) -> list[str]:
        """Return the files of versions that were written to other paths."""
        return [
            path
            for subject, numbers in written.items()
            for number, path in self._files.get(subject, {}).items()
            if path not in paths and (number == 0 or number in numbers)
        ]
