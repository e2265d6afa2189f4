"""Versions as Confluent's API shows them, and folders of such files: ``registrar snapshot export``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from registry.domain.model import DEFAULT_TYPE, Metadata, Reference, RuleSet, Subject

from .contents import Contents, FolderError, Version

# Written last, so an export without it is not complete.
_ABOUT: Final = "snapshot.json"
_ENTITY: Final = "entity.json"


class _Entity(msgspec.Struct):
    """An answer of ``GET /subjects/{subject}/versions/{version}``."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str | None = msgspec.field(default=None, name="schemaType")
    references: list[Reference] | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = msgspec.field(default=None, name="ruleSet")
    deleted: bool | None = None


def version_of(entity: Any, origin: str = "") -> tuple[str, Version]:
    """Return the subject and the version in an entity. Raises :class:`msgspec.ValidationError`."""
    found = msgspec.convert(entity, _Entity)
    version = Version(
        found.schema,
        found.schema_type or DEFAULT_TYPE,
        found.version,
        tuple(found.references or ()),
        found.metadata,
        found.rule_set,
        found.id,
        bool(found.deleted),
        origin,
    )
    return Subject.parse(found.subject).qualified, version


def is_export(tree: Mapping[str, bytes]) -> bool:
    """Return true if files are those of an exported snapshot."""
    return _ABOUT in tree and "configs.json" in tree and "modes.json" in tree


def contents_of(tree: Mapping[str, bytes]) -> Contents:
    """Return the contents of an exported snapshot. Raises :class:`.contents.FolderError`."""
    subjects: dict[str, dict[int, Version]] = {}
    for path in sorted(tree):
        if path.rpartition("/")[2] == _ENTITY:
            subject, version = _read(tree, path)
            subjects.setdefault(subject, {})[version.number] = version
    versions = {subject: tuple(found[each] for each in sorted(found)) for subject, found in subjects.items()}
    configs: dict[str, dict[str, Any]] = _read_scope(tree, "configs.json", dict[str, dict[str, Any]])
    modes: dict[str, _Mode] = _read_scope(tree, "modes.json", dict[str, _Mode])
    return Contents(versions, configs, {scope: each.mode for scope, each in modes.items()})


class _Mode(msgspec.Struct):
    mode: str


def _read_scope(tree: Mapping[str, bytes], path: str, kind: Any) -> Any:
    try:
        found = msgspec.convert(_object(tree, path), kind)
    except msgspec.ValidationError as error:
        raise FolderError(f"{path}: {error}") from None
    return {Subject.parse(scope).qualified: stored for scope, stored in found.items()}


def _read(tree: Mapping[str, bytes], path: str) -> tuple[str, Version]:
    try:
        return version_of(_object(tree, path), path)
    except msgspec.ValidationError as error:
        raise FolderError(f"{path}: {error}") from None


def _object(tree: Mapping[str, bytes], path: str) -> dict[str, Any]:
    try:
        found = orjson.loads(tree[path])
    except orjson.JSONDecodeError as error:
        raise FolderError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise FolderError(f"{path} must hold an object")
    return found
