"""Contents that verbs are given by a path, a git revision, a URL or the name of a snapshot."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from registry.cli.client.addresses import PROFILE
from registry.cli.client.connect import Connection
from registry.cli.client.resources import RegistryError
from registry.cli.folder.contents import MANIFEST, Contents, FolderError, contents_of, is_export
from registry.cli.folder.manifest import Manifest
from registry.cli.folder.reading import Tree, manifest_of, read
from registry.cli.folder.steps import REFUSED, Plan
from registry.cli.folder.trees import at_revision, file_on_disk, on_disk
from registry.cli.output import Failure
from registry.cli.promotion.streams import RegistryStreams
from registry.domain.model import Subject


@contextmanager
def open_source(connection: Connection, source: str, side: str = "") -> Iterator[RegistryStreams | str]:
    """Open the registry at ``source``, for a ``with`` block; yield the name of a snapshot as it is.

    ``side``: :data:`registry.cli.client.addresses.FROM` or ``TO`` if the command may name two registries.
    Every error of the registry ends the verb with ``FAILED``: nothing can be said about what it holds.
    """
    if not is_url(source):
        yield source
        return
    try:
        with connection.open(os.environ, source, side) as client:
            yield RegistryStreams(client)
    except RegistryError as error:
        raise Failure(str(error)) from None


def is_url(source: str) -> bool:
    """Return true if a source is a running registry, by its URL or as a profile."""
    return source.lower().startswith(("http://", "https://", PROFILE))


GIT: Final = "git:"


class FolderSource(NamedTuple):
    """A folder, a part of one, or a file, read."""

    contents: Contents
    manifest: Manifest
    # The subjects of a part, as its folder calls them; the contents also have what these refer to.
    part: tuple[str, ...] = ()
    # The only subject of the part, if it got another name.
    renamed: str = ""

    def is_about(self, subject: str) -> bool:
        """Return true if a subject of the contents is what was asked for, false if others refer to it."""
        return not self.part or subject == self.renamed or subject in self.part

    def about(self, plan: Plan) -> Plan:
        """Return a plan without the outcomes of what is only referred to, unless it is refused."""
        shown = [each for each in plan.outcomes if each.verdict in REFUSED or self.is_about(each.subject)]
        return replace(plan, outcomes=shown)


@contextmanager
def report_folder_errors() -> Iterator[None]:
    """Turn an error of a folder into a message and an exit status."""
    try:
        yield
    except FolderError as error:
        raise Failure(str(error)) from None


def folder_of(path: Path) -> Path:
    """Return the folder that the names of files are relative to.

    That is the nearest one around ``path`` with a manifest, in the same git repository; else ``path`` or, if
    that is a file, its folder.
    """
    start = path if path.is_dir() else path.parent
    for folder in _enclosing_folders(start.absolute()):
        if (folder / MANIFEST).is_file():
            if folder == start.absolute():
                return start
            return folder if path.is_absolute() else Path(os.path.relpath(folder))
    return start


def _enclosing_folders(start: Path) -> Iterator[Path]:
    """Yield a folder and those around it, up to a hidden one or the root of the git repository."""
    for folder in (start, *start.parents):
        yield folder
        if folder.name.startswith(".") or (folder / ".git").exists():
            return


def whole(folder: Path) -> FolderSource:
    """Read a folder, whatever is around it. Raises :class:`.contents.FolderError`."""
    return _whole(on_disk(folder))


def source(path: Path, subject: str = "") -> FolderSource:
    """Read a folder, or a part of one with what it refers to in the rest.

    ``subject``: of ``path`` if it is a file, instead of the one that it is named after. Raises
    :class:`.contents.FolderError`.
    """
    folder = folder_of(path)
    if folder == path:
        return whole(path)
    if (folder / MANIFEST).is_file():
        found = _part(on_disk(folder), _place(path, folder), subject)
    else:
        alone = {path.name: file_on_disk(path)}
        found = _single(alone, lambda: on_disk(folder, deep=False), path.name, subject)
    if not found.part:
        raise FolderError(
            f"{path} contains no schema: files must end in .avsc, .json or .proto, and not be ignored"
        )
    return found


def earlier(where: str, path: Path, subject: str, part: Collection[str]) -> Contents:
    """Read what ``path`` is compared with: ``git:REVISION``, a folder or a file.

    ``subject``: as for :func:`source`. ``part``: the subjects of ``path``, if it is a part of a folder.
    Raises :class:`.contents.FolderError`.
    """
    if where.startswith(GIT):
        folder = folder_of(path)
        tree = at_revision(folder, where.removeprefix(GIT))
        if folder == path:
            return _whole(tree).contents
        if (folder / MANIFEST).is_file():
            return _part(tree, _place(path, folder), subject, part).contents
        alone = {name: data for name, data in tree.items() if name == path.name}
        siblings = {name: data for name, data in tree.items() if "/" not in name}
        return _single(alone, lambda: siblings, path.name, subject).contents
    other = Path(where)
    if not other.exists():
        raise FolderError(f"{where} does not exist; name a path, git:REVISION, or the URL of a registry")
    single = next(iter(part), "") if not path.is_dir() else ""
    return source(other, subject or single if not other.is_dir() else "").contents


def _whole(tree: Tree) -> FolderSource:
    if is_export(tree):
        return FolderSource(contents_of(tree), Manifest())
    manifest = manifest_of(tree)
    return FolderSource(read(tree, manifest), manifest)


def _place(path: Path, folder: Path) -> str:
    return path.absolute().relative_to(folder.absolute()).as_posix()


def _single(alone: Tree, siblings: Callable[[], Tree], name: str, subject: str) -> FolderSource:
    """Read a file that no manifest is about; it may refer to others in its folder."""
    found = _part(alone, name, subject)
    if any(each.missing for _, each in found.contents):
        with suppress(FolderError):  # files that do not fit together are not what was asked for
            return _part({**siblings(), **alone}, name, subject)
    return found


def _part(tree: Tree, inside: str, subject: str, part: Collection[str] = ()) -> FolderSource:
    """Return the subjects with a file at or below ``inside``, and those of ``part``, with what they refer to.

    ``subject``: another name of the only one.
    """
    manifest = manifest_of(tree)
    contents = read(tree, manifest)
    names = dict.fromkeys(
        name
        for name, version in contents
        if name in part or version.origin == inside or version.origin.startswith(f"{inside}/")
    )
    found, renamed = contents.with_referenced(names), ""
    if subject and len(names) == 1:
        renamed = Subject.parse(subject).qualified
        found = found.with_renamed(next(iter(names)), renamed)
    return FolderSource(found, manifest, tuple(names), renamed)
