"""The tree of files that holds contents: what :mod:`.reading` reads again."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import msgspec
import tomli_w

from registry.domain.errors import RegistryError
from registry.domain.model import LATEST, Reference, Subject
from registry.domain.schemas import FORMATS, types_by_extension

from .contents import MANIFEST, Contents, FolderError, Version, is_export
from .layout import Layout
from .manifest import CONFIG, parse
from .memory_registry import MemoryRegistry
from .reading import Tree, place_of, read

_STORED_AS: Final = {stored: name for name, stored in CONFIG.items()}
# Members of the manifest that no registry holds.
_OF_FILES: Final = ("subjects", "ignore", "lint_errors", "lint_warnings")


class Written(NamedTuple):
    """Files to write, and those to remove: of the same versions, or all others with schemas."""

    tree: dict[str, bytes]
    replaced: list[str]


def files_of(
    contents: Contents,
    before: Tree,
    owned: Iterable[str] = (),
    *,
    keep_ids: bool = False,
    whole: bool = False,
) -> Written:
    """Return the files that a folder with the files ``before`` needs to hold these contents.

    They stay where they are, as they are spelled; further ones are named as :func:`tree_of` does. The
    manifest keeps what it says of files. ``whole``: the folder shall hold nothing else, so other schemas go,
    and what the manifest says of them, but no files that it ignores. Raises
    :class:`.contents.FolderError` if the folder cannot be read.
    """
    if is_export(before):
        raise FolderError("the folder holds an exported snapshot: name another one")
    present = read(before)
    tree = tree_of(contents, owned, keep_ids=keep_ids, present=present)
    written: dict[str, list[int]] = {}
    for subject, version in contents:
        written.setdefault(subject, []).append(version.number)
    replaced = Layout(present, written).replaced_files(written, tree)
    if whole:
        replaced = [version.origin for _, version in present if version.origin not in tree]
    keep_manifest(tree, contents, before.get(MANIFEST, b""), whole=whole)
    _drop_inferred({path: each for path, each in before.items() if path not in replaced}, tree, contents)
    return Written(tree, replaced)


def _drop_inferred(before: Tree, tree: dict[str, bytes], contents: Contents) -> None:
    """Leave out the references of ``contents`` that a reader of the folder infers.

    A version without references gets an empty list if the reader would infer some.
    """
    manifest, bare = (tomllib.loads(tree[MANIFEST].decode()) for _ in range(2))
    for subject, version in contents:
        for number in (0, version.number):
            _entry(bare, subject, number).pop("references", None)
    try:
        inferred = read({**before, **tree, MANIFEST: _serialize(_without_empty(bare))})
    except FolderError:
        return  # files that do not fit together stay as they are
    for subject, version in inferred:
        numbers = {each.number for each in contents.versions.get(subject, ())}
        if not numbers or version.number not in {0, *numbers}:
            continue
        entry = _entry(manifest, subject, version.number)
        if entry.get("references", []) == [
            _reference(inferred, subject, each) for each in version.references
        ]:
            entry.pop("references", None)
        else:
            entry.setdefault("references", [])
    tree[MANIFEST] = _serialize(_without_empty(manifest))


def _entry(manifest: dict[str, Any], subject: str, number: int) -> dict[str, Any]:
    """Return the table of a version, which is made if there is none; 0: the subject's."""
    table: dict[str, Any] = manifest.setdefault("subject", {}).setdefault(subject, {})
    if not number:
        return table
    found: dict[str, Any] = table.setdefault("versions", {}).setdefault(str(number), {})
    return found


def _without_empty(manifest: dict[str, Any]) -> dict[str, Any]:
    for subject, table in [*manifest.get("subject", {}).items()]:
        if "versions" in table:
            table["versions"] = {number: each for number, each in table["versions"].items() if each}
            if not table["versions"]:
                del table["versions"]
        if not table:
            del manifest["subject"][subject]
    return manifest


def tree_of(
    contents: Contents, owned: Iterable[str] = (), *, keep_ids: bool = False, present: Contents | None = None
) -> dict[str, bytes]:
    """Return the files of a folder with these contents.

    A subject with one version is a file; the versions of others are in a folder. ``owned``: patterns of the
    subjects that the folder owns. ``keep_ids``: name each version's number and id. ``present``: the
    versions that lie in files already.
    """
    registry = MemoryRegistry()
    registry.load(Contents(contents.versions))
    found = {subject: versions for subject, versions in contents.versions.items() if versions}
    present = present or Contents()
    layout = Layout(present, found)
    tree: dict[str, bytes] = {}
    tables: dict[str, dict[str, Any]] = {}
    for subject, versions in found.items():
        single = len(versions) == 1 and not keep_ids and not layout.is_numbered(subject)
        texts = {each.origin: each for each in present.versions.get(subject, ())}
        parts = {}
        for version in versions:
            number = 0 if single else version.number
            path = layout.path(subject, number, version.schema_type)
            part = parts[str(version.number)] = _part(contents, subject, version, keep_ids=keep_ids)
            tree[path] = _text(registry, subject, version, texts.get(path))
            if not _stands_for(path, subject, number):
                part["file"] = path
            if version.schema_type not in FORMATS:
                part["schemaType"] = version.schema_type
        if single:
            (tables[subject],) = parts.values()
        else:
            numbered = {number: part for number, part in parts.items() if part}
            tables[subject] = {"versions": numbered} if numbered else {}
    tree[MANIFEST] = _manifest(contents, tables, owned)
    return tree


def keep_manifest(tree: dict[str, bytes], contents: Contents, before: bytes, *, whole: bool) -> None:
    """Keep what an earlier manifest says of files, and, unless the tree is ``whole``, of other subjects.

    Raises :class:`.contents.FolderError` if it is not valid.
    """
    parse(before)
    old, new = (tomllib.loads(each.decode()) for each in (before, tree[MANIFEST]))
    found = {name: old[name] for name in _OF_FILES if name in old} | new
    if not whole:
        found["subjects"] = list(dict.fromkeys([*old.get("subjects", []), *new.get("subjects", [])]))
        subjects = {
            name: table
            for name, table in old.get("subject", {}).items()
            if Subject.parse(name).qualified not in contents.versions
        }
        found["subject"] = subjects | new.get("subject", {})
        for name, table in old.get("subject", {}).items():
            _keep_versions(found["subject"], Subject.parse(name).qualified, table, contents)
        found["contexts"] = old.get("contexts", {}) | new.get("contexts", {})
    tree[MANIFEST] = _serialize(found)


def _keep_versions(tables: dict[str, Any], subject: str, old: dict[str, Any], contents: Contents) -> None:
    """Keep the entries of versions that were not written."""
    written = {str(each.number) for each in contents.versions.get(subject, ())}
    kept = {number: entry for number, entry in old.get("versions", {}).items() if number not in written}
    if written and kept:
        table = tables.setdefault(subject, {})
        table["versions"] = kept | table.get("versions", {})


def _serialize(manifest: dict[str, Any]) -> bytes:
    text: str = tomli_w.dumps({name: each for name, each in manifest.items() if each})
    return text.encode()


def _part(contents: Contents, subject: str, version: Version, *, keep_ids: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if keep_ids:
        found["id"] = version.schema_id
    if version.deleted:
        found["deleted"] = True
    if version.references:
        found["references"] = [_reference(contents, subject, each) for each in version.references]
    if version.metadata is not None:
        found["metadata"] = msgspec.to_builtins(version.metadata)
    if version.rule_set is not None:
        found["ruleSet"] = msgspec.to_builtins(version.rule_set)
    return found


def _reference(contents: Contents, subject: str, reference: Reference) -> dict[str, Any]:
    """Return a reference; without a version if the file that it names has no number."""
    shown = {"name": reference.name, "subject": reference.subject}
    target, position = contents.target(reference, subject)
    if reference.version == LATEST or (position is not None and len(contents.versions[target]) == 1):
        return shown
    return shown | {"version": reference.version}


def _manifest(contents: Contents, tables: dict[str, dict[str, Any]], owned: Iterable[str]) -> bytes:
    contexts: dict[str, dict[str, Any]] = {}
    scopes = [(scope, _config(config)) for scope, config in contents.configs.items()]
    for scope, members in [*scopes, *((scope, {"mode": mode}) for scope, mode in contents.modes.items())]:
        place = Subject.parse(scope)
        table = contexts if place.is_context else tables
        table.setdefault(place.context if place.is_context else scope, {}).update(members)
    found: dict[str, Any] = {"subjects": list(owned)} if owned else {}
    found["contexts"] = dict(sorted(contexts.items()))
    found["subject"] = {name: tables[name] for name in sorted(tables) if tables[name]}
    return _serialize(found)


def _config(config: Any) -> dict[str, Any]:
    return {
        _STORED_AS[name]: value for name, value in config.items() if name in _STORED_AS and value is not None
    }


def _text(registry: MemoryRegistry, subject: str, version: Version, present: Version | None) -> bytes:
    """Return the text in lines, which show changes best, if that means exactly the same.

    ``present``: the version in the file, whose text stays if it means the same.
    """
    if present is not None and _same(registry, subject, version, present.text):
        return present.text.encode()
    try:
        lines = json.dumps(json.loads(version.text), indent=2, ensure_ascii=False) + "\n"
        if _same(registry, subject, version, lines):
            return lines.encode()
    except (ValueError, RecursionError):  # also of a text that is not JSON, as in Protobuf
        pass
    return version.text.encode("utf-8", "surrogatepass")


def _stands_for(path: str, subject: str, number: int) -> bool:
    """Return true if the path says which version is in the file."""
    try:
        return PurePosixPath(path).suffix in types_by_extension() and place_of(path) == (subject, number)
    except FolderError:
        return False


def _same(registry: MemoryRegistry, subject: str, version: Version, text: str) -> bool:
    if text == version.text:
        return True
    try:
        return registry.canonical(subject, replace(version, text=text)) == registry.canonical(
            subject, version
        )
    except (ValueError, RecursionError, RegistryError):
        return False
