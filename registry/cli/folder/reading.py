"""Contents of a tree of files: the schemas by the names of their files, and what the manifest adds.

Avro schemas refer to full names, JSON schemas to URIs and relative paths, Protobuf files to paths of imports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Final, NamedTuple

from registry.domain.model import LATEST, Reference, Subject
from registry.domain.schemas import FORMATS, InvalidSchema, Links, types_by_extension
from registry.domain.schemas.contract import Use

from .contents import MANIFEST, Contents, FolderError, Version, is_version_number
from .layout import subject_of
from .manifest import Manifest, SubjectEntry, VersionEntry, parse
from .steps import Place

_NO_LINKS: Final = Links("", (), ())


def link_references(contents: Contents, inferred: Collection[Place]) -> Contents:
    """Return contents whose versions at the places ``inferred`` have the references that they need.

    A version that uses a name to which no reference leads says where that name is (``Version.missing``).
    """
    known = {(subject, at): _links(each) for subject, at, each in _all_versions(contents)}
    if not any(each.uses for each in known.values()):
        return contents
    index = _Index(contents, known)
    found: dict[str, list[Version]] = {}
    for subject, at, version in _all_versions(contents):
        links = known[subject, at]
        if links.uses:
            version = index.complete(subject, version, links, infer=(subject, at) in inferred)  # noqa: PLW2901
        found.setdefault(subject, []).append(version)
    return replace(contents, versions={subject: tuple(each) for subject, each in found.items()})


def _all_versions(contents: Contents) -> Iterator[tuple[str, int, Version]]:
    for subject, versions in contents.versions.items():
        for at, each in enumerate(versions):
            yield subject, at, each


def _links(version: Version) -> Links:
    form = FORMATS.get(version.schema_type)
    try:
        return _NO_LINKS if form is None else form.links(version.text)
    except (InvalidSchema, RecursionError):
        return _NO_LINKS  # the registry refuses it with the reason


class _Source(NamedTuple):
    """A version that others may refer to."""

    subject: str
    version: Version


class _Index:
    """The latest versions of subjects, by their names and files."""

    def __init__(self, contents: Contents, known: dict[Place, Links]) -> None:
        self._whole: dict[tuple[str, str], list[_Source]] = {}
        self._inner: dict[tuple[str, str], list[_Source]] = {}
        self._files: dict[tuple[str, str], _Source] = {}
        # By each end of a path, such as acme/money.proto of protos/acme/money.proto.
        self._ends: dict[tuple[str, str], list[_Source]] = {}
        for subject, versions in contents.versions.items():
            _, at = contents.target(Reference("", subject, LATEST), "")
            if at is not None:
                self._add(_Source(subject, versions[at]), known[subject, at])

    def _add(self, source: _Source, links: Links) -> None:
        kind = source.version.schema_type
        if links.own:
            self._whole.setdefault((kind, links.own), []).append(source)
        for name in links.inner:
            self._inner.setdefault((kind, name), []).append(source)
        path = PurePosixPath(source.version.origin)
        paths = [path]
        if is_version_number(path.stem):  # SUBJECT/1.proto is imported as SUBJECT.proto
            paths.append(PurePosixPath(f"{path.parent}{path.suffix}"))
        for each in paths:
            if each is path or (kind, str(each)) not in self._files:
                self._files[kind, str(each)] = source
            if links.by == "path":
                for start in range(1, len(each.parts)):
                    self._ends.setdefault((kind, "/".join(each.parts[start:])), []).append(source)

    def complete(self, subject: str, version: Version, links: Links, *, infer: bool) -> Version:
        """Return a version with references, if they are to be inferred, and with what is missing then."""
        references, missing = list(version.references), []
        given = {each.name for each in references}
        named = {
            Subject.within(Subject.parse(subject).context, each.subject).qualified for each in references
        }
        # A reference is rather named after a whole schema than after a part of it.
        kind = version.schema_type
        for use in sorted(
            links.uses, key=lambda use: all((kind, each) not in self._whole for each in use.targets)
        ):
            sources = self._sources(subject, version, use, links)
            if len(sources) == 1 and infer:
                target = _spell(sources[0].subject, subject)
                if links.by != "name" or all(each.subject != target for each in references):
                    references.append(Reference(use.name, target, LATEST))
            elif use.name not in given and named.isdisjoint(each.subject for each in sources):
                missing.append((use.name, _where(use.name, sources)))
        return replace(version, references=tuple(references), missing=tuple(missing))

    def _sources(self, subject: str, version: Version, use: Use, links: Links) -> Sequence[_Source]:
        """Return the versions that may be meant: one, or several that differ."""
        kind, context = version.schema_type, Subject.parse(subject).context
        for table in (self._whole, self._inner):
            for target in use.targets:
                found = [each for each in table.get((kind, target), ()) if each.subject != subject]
                near = [each for each in found if Subject.parse(each.subject).context == context]
                if found := near or found:
                    return found[:1] if len({each.version.text for each in found}) == 1 else found
        files = [] if links.by == "name" else self._by_path(version, use.name, relative=links.by == "uri")
        return [each for each in files if each.subject != subject]

    def _by_path(self, version: Version, name: str, *, relative: bool) -> Sequence[_Source]:
        folder, kind = PurePosixPath(version.origin).parent, version.schema_type
        for path in ([str(folder / name)] if relative else []) + [name]:
            if found := self._files.get((kind, normpath(path))):
                return [found]
        return self._ends.get((kind, normpath(name)), [])


def _spell(target: str, user: str) -> str:
    """Return a subject as a reference of ``user`` names it."""
    found = Subject.parse(target)
    near = found.context == Subject.parse(user).context and not found.name.startswith(":.")
    return found.name if near else target


def _where(name: str, sources: Sequence[_Source]) -> str:
    files = " and ".join(sorted(each.version.origin or each.subject for each in sources))
    if not sources:
        return f"no file here has {name}"
    if len(sources) == 1:
        return f"{name} is in {files}: add it to the references in {MANIFEST}"
    return f"{name} is in {files}: name one of them under references in {MANIFEST}"


# Files by their path from the folder, with ``/`` between its parts.
Tree = Mapping[str, bytes]
_NO_ENTRY: Final = VersionEntry()


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
    return link_references(contents, [*_without_references(files, manifest)])


def _without_references(files: _Files, manifest: Manifest) -> Iterator[Place]:
    """Yield the places of the versions whose references the manifest does not name."""
    for subject, found in files.items():
        entry = manifest.subjects.get(subject, SubjectEntry())
        for at, number in enumerate(sorted(found)):
            own = entry.versions.get(number, _NO_ENTRY)
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
    own, common = entry.versions.get(number, _NO_ENTRY), entry.content
    schema_type = own.schema_type or common.schema_type
    schema_type = schema_type or types_by_extension().get(PurePosixPath(path).suffix)
    if schema_type is None:
        raise FolderError(f"{path}: cannot determine the type of the schema; add schemaType in {MANIFEST}")
    return Version(
        text=decode_text(path, tree[path]),
        schema_type=schema_type,
        number=number,
        references=(own.references if own.references is not None else common.references) or (),
        metadata=own.metadata or common.metadata,
        rule_set=own.rule_set or common.rule_set,
        schema_id=own.schema_id,
        deleted=own.deleted,
        origin=path,
    )


def decode_text(path: str, raw: bytes) -> str:
    """Return the text of a file. Raises :class:`.contents.FolderError` if it is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
