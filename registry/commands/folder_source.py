"""Contents that verbs are given by a path, a git revision or the URL of a registry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from registry.command_line.exit_status import Failure
from registry.domain.model import Subject
from registry.folder.contents import Contents, FolderError
from registry.folder.exported import contents_of, is_export
from registry.folder.manifest import Manifest
from registry.folder.reading import Tree, manifest_of, read
from registry.folder.trees import at_revision, file_on_disk, on_disk

GIT: Final = "git:"


class Source(NamedTuple):
    """A folder or a file, read."""

    contents: Contents
    manifest: Manifest


@contextmanager
def folders_told() -> Iterator[None]:
    """Turn an error of a folder into a message and an exit status."""
    try:
        yield
    except FolderError as error:
        raise Failure(str(error)) from None


def folder_of(path: Path) -> Path:
    """Return the folder that the names of files are relative to."""
    return path if path.is_dir() else path.parent


def source(path: Path, subject: str = "") -> Source:
    """Read a folder, or a file as the only version of a subject, by default the one it is named after."""
    tree = on_disk(path) if path.is_dir() else {path.name: file_on_disk(path)}
    return _source(tree, subject, single=not path.is_dir())


def earlier(where: str, path: Path, subject: str) -> Contents:
    """Read what ``path`` is compared with: ``git:REVISION``, a folder or a file."""
    single = not path.is_dir()
    if where.startswith(GIT):
        tree = at_revision(folder_of(path), where.removeprefix(GIT))
        if single:
            tree = {name: data for name, data in tree.items() if name == path.name}
        return _source(tree, subject, single=single).contents
    other = Path(where)
    if not other.exists():
        raise FolderError(f"{where} does not exist; name a path, git:REVISION, or the URL of a registry")
    return source(other, subject if not other.is_dir() else "").contents


def _source(tree: Tree, subject: str, *, single: bool) -> Source:
    if is_export(tree):
        return Source(contents_of(tree), Manifest())
    manifest = Manifest() if single else manifest_of(tree)
    contents = read(tree, manifest)
    if single and tree and not contents.versions:
        (name,) = tree
        raise FolderError(f"{name} is no schema: its name must end in .avsc, .json or .proto")
    if subject and single:
        (versions,) = contents.versions.values() or [()]
        contents = Contents({Subject.parse(subject).qualified: versions})
    return Source(contents, manifest)
