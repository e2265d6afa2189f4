"""The tree of files that holds contents: what :mod:`.reading` reads again."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
import tomli_w

from registry.domain.errors import RegistryError
from registry.domain.model import LATEST, Reference, Subject

from .contents import MANIFEST, Contents, Version
from .file_names import EXTENSIONS, TYPES, file_names, subject_of
from .manifest import CONFIG, parse
from .memory_registry import MemoryRegistry

_STORED_AS: Final = {stored: name for name, stored in CONFIG.items()}
# Extension of a schema of a type that the domain does not know.
_UNKNOWN: Final = ".txt"
# Members of the manifest that no registry holds.
_OF_FILES: Final = ("subjects", "ignore", "lint_errors", "lint_warnings")


def tree_of(contents: Contents, owned: Iterable[str] = (), *, keep_ids: bool = False) -> dict[str, bytes]:
    """Return the files of a folder with these contents.

    A subject with one version is a file; the versions of others are in a folder. ``owned``: patterns of the
    subjects that the folder owns. ``keep_ids``: name each version's number and id.
    """
    registry = MemoryRegistry()
    registry.load(Contents(contents.versions))
    names = file_names(subject for subject, versions in contents.versions.items() if versions)
    tree: dict[str, bytes] = {}
    tables: dict[str, dict[str, Any]] = {}
    for subject, name in names.items():
        versions = contents.versions[subject]
        single = len(versions) == 1 and not keep_ids
        parts = [_part(contents, subject, version, keep_ids=keep_ids) for version in versions]
        paths = [_path(name, version, single=single) for version in versions]
        for version, part, path in zip(versions, parts, paths, strict=True):
            tree[path] = _text(registry, subject, version)
            if subject_of(name) != subject or PurePosixPath(path).suffix not in TYPES:
                part["file"] = path
            if EXTENSIONS.get(version.schema_type) is None:
                part["schemaType"] = version.schema_type
        if single:
            tables[subject] = parts[0]
        else:
            numbered = {str(each.number): part for each, part in zip(versions, parts, strict=True) if part}
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
        found["contexts"] = old.get("contexts", {}) | new.get("contexts", {})
    tree[MANIFEST] = _printed(found)


def _printed(manifest: dict[str, Any]) -> bytes:
    text: str = tomli_w.dumps({name: each for name, each in manifest.items() if each})
    return text.encode()


def _path(name: str, version: Version, *, single: bool) -> str:
    extension = EXTENSIONS.get(version.schema_type, _UNKNOWN)
    return f"{name}{extension}" if single else f"{name}/{version.number}{extension}"


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
    return _printed(found)


def _config(config: Any) -> dict[str, Any]:
    return {
        _STORED_AS[name]: value for name, value in config.items() if name in _STORED_AS and value is not None
    }


def _text(registry: MemoryRegistry, subject: str, version: Version) -> bytes:
    """Return the text in lines, which show changes best, if that means exactly the same."""
    text = version.text.encode("utf-8", "surrogatepass")
    if version.schema_type == "PROTOBUF":
        return text
    try:
        lines = json.dumps(json.loads(version.text), indent=2, ensure_ascii=False) + "\n"
        in_lines = lines.encode()
        same = registry.canonical(subject, replace(version, text=lines)) == registry.canonical(
            subject, version
        )
    except (ValueError, RecursionError, RegistryError):
        return text
    return in_lines if same else text
