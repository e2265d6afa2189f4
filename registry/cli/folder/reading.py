"""Contents of a tree of files: the schemas by the names of their files, and what the manifest adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from registry.domain.model import Subject
from registry.domain.schemas import types_by_extension

from .contents import MANIFEST, Contents, FolderError, Version, is_version_number
from .layout import subject_of
from .linking import linked
from .manifest import Manifest, SubjectEntry, VersionEntry, parse
from .steps import Place

# Files by their path from the folder, with ``/`` between its parts.
Tree = Mapping[str, bytes]
_NOTHING: Final = VersionEntry()


def is_schema(path: str) -> bool:
    """Return true if the name of a file says that it holds a schema."""
    return PurePosixPath(path).suffix in types_by_extension()


def manifest_of(tree: Tree) -> Manifest:
    """Return the manifest; an empty one if there is none. Raises :class:`.contents.FolderError`."""
    raw = tree.get(MANIFEST)
    return Manifest() if raw is None else parse(raw)


def read(tree: Tree, manifest: Manifest | None = None) -> Contents:
    """Return the contents of a folder, with references. Raises :class:`.contents.FolderError`.

    ``manifest``: instead of the tree's own. References that it does not name are inferred.
    """
    manifest = manifest_of(tree) if manifest is None else manifest
    files = _files_by_name(tree, manifest)
    _add_named_by_manifest(files, manifest)
    versions = {
        subject: tuple(
            _version(tree, path, number, manifest.subjects.get(subject, SubjectEntry()))
            for number, path in sorted(found.items())
        )
        for subject, found in files.items()
    }
    contents = Contents(versions, manifest.configs, manifest.modes)
    return linked(contents, [*_unspoken(files, manifest)])


def _unspoken(files: _Files, manifest: Manifest) -> Iterator[Place]:
    """Yield the places of the versions whose references the manifest does not name."""
    for subject, found in files.items():
        entry = manifest.subjects.get(subject, SubjectEntry())
        for at, number in enumerate(sorted(found)):
            own = entry.versions.get(number, _NOTHING)
            if own.references is None and entry.content.references is None:
                yield subject, at


# For each subject, the file of each of its versions; 0 is the version without a number.
_Files = dict[str, dict[int, str]]


def _files_by_name(tree: Tree, manifest: Manifest) -> _Files:
    """Return the files that are named after subjects."""
    entries = manifest.subjects.values()
    used = {part.file for each in entries for part in (each.content, *each.versions.values())}
    files: _Files = {}
    for path in sorted(tree):
        if not is_schema(path) or path in used or any(fnmatchcase(path, each) for each in manifest.ignored):
            continue
        subject, number = place_of(path)
        _add(files, subject, number, path)
    return files


def place_of(where: str) -> tuple[str, int]:
    """Return the subject and the number that a path stands for: ``SUBJECT.avsc`` or ``SUBJECT/1.avsc``.

    Raises :class:`.contents.FolderError` if it stands for none.
    """
    path = PurePosixPath(where)
    name, number = path.stem, 0
    if is_version_number(name) and path.parent.name:
        name, number = path.parent.name, int(name)
    subject = subject_of(name)
    if subject is None:
        raise FolderError(f"{path}: cannot determine the subject; name it in {MANIFEST}")
    return Subject.parse(subject).qualified, number


def _add_named_by_manifest(files: _Files, manifest: Manifest) -> None:
    for subject, entry in manifest.subjects.items():
        for number, part in {0: entry.content, **entry.versions}.items():
            if part.file is not None:
                _add(files, subject, number, part.file)
        missing = sorted(entry.versions.keys() - files.get(subject, {}).keys())
        if missing:
            raise FolderError(f"{MANIFEST}: there is no file for version {missing[0]} of {subject}")


def _add(files: _Files, subject: str, number: int, path: str) -> None:
    found = files.setdefault(subject, {})
    if number in found or 0 in found or (number == 0 and found):
        other = found.get(number, next(iter(found.values())))
        advice = f"give each a version, as in {subject}/1.avsc, or remove one"
        raise FolderError(f"{other} and {path} are both {subject}: {advice}")
    found[number] = path


def _version(tree: Tree, path: str, number: int, entry: SubjectEntry) -> Version:
    if path not in tree:
        raise FolderError(f"{MANIFEST}: {path} does not exist in the folder")
    own, common = entry.versions.get(number, _NOTHING), entry.content
    schema_type = own.schema_type or common.schema_type
    schema_type = schema_type or types_by_extension().get(PurePosixPath(path).suffix)
    if schema_type is None:
        raise FolderError(f"{path}: cannot determine the type of the schema; add schemaType in {MANIFEST}")
    return Version(
        text=decoded(path, tree[path]),
        schema_type=schema_type,
        number=number,
        references=(own.references if own.references is not None else common.references) or (),
        metadata=own.metadata or common.metadata,
        rule_set=own.rule_set or common.rule_set,
        schema_id=own.schema_id,
        deleted=own.deleted,
        origin=path,
    )


def decoded(path: str, raw: bytes) -> str:
    """Return the text of a file. Raises :class:`.contents.FolderError` if it is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
