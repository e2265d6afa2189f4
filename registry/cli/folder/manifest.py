"""The file ``registrar.toml`` of a folder: what schema files do not say themselves.

::

    subjects = ["orders-*"]                # what the folder owns: apply --prune deletes only these
    ignore = ["examples/*"]                # files that are not schemas
    lint_errors = ["docs"]                 # rules of registrar lint
    lint_warnings = ["namespace"]

    [contexts."."]                         # "." is the top level
    compatibility = "FULL"

    [subject."orders-value"]
    compatibility = "BACKWARD_TRANSITIVE"  # and the other members of PUT /config/{subject}
    mode = "READONLY"
    file = "orders/value.avsc"             # default: the file named after the subject
    references = [{ name = "com.acme.Money", subject = "money-value" }]
    metadata = { properties = { owner = "team" } }
    ruleSet = { domainRules = [] }

    [subject."orders-value".versions.1]    # of subjects with several versions
    file = "orders-value/1.avsc"
    references = []                        # and metadata, ruleSet, id, deleted
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from registry.domain.model import (
    DEFAULT_CONTEXT,
    LATEST,
    Metadata,
    Reference,
    RuleSet,
    Subject,
    metadata,
    rule_set,
)
from registry.domain.schemas import FORMATS
from registry.domain.schemas.lint import RULES
from registry.domain.subject_patterns import Pattern, parse_pattern

from .contents import INT_MAX, MANIFEST, FolderError, is_version_number

_TABLES_MAX: Final = 100_000
# Members of configs as the manifest and ``PUT /config`` name them, with their names in ``GET /config``.
CONFIG: Final = {
    "compatibility": "compatibilityLevel",
    **{
        name: name
        for name in (
            "alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules",
            "compatibilityPolicy", "compatibilityGroup", "defaultMetadata", "overrideMetadata",
            "defaultRuleSet", "overrideRuleSet", "compatibilityUsed",
        )
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class VersionEntry:
    """An entry for a version, or for all files of a subject; ``None`` where it says nothing."""

    file: str | None = None
    schema_type: str | None = None
    references: tuple[Reference, ...] | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    schema_id: int = -1
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class SubjectEntry:
    """An entry for a subject."""

    content: VersionEntry = field(default_factory=VersionEntry)
    versions: Mapping[int, VersionEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A parsed manifest."""

    owned: tuple[Pattern, ...] = ()
    ignored: tuple[str, ...] = ()
    lint_errors: tuple[str, ...] | None = None
    lint_warnings: tuple[str, ...] | None = None
    subjects: Mapping[str, SubjectEntry] = field(default_factory=dict)
    # By qualified name; the top level is an empty one.
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)


def parse(raw: bytes) -> Manifest:
    """Parse a manifest. Raises :class:`.contents.FolderError` that names the table and the key."""
    try:
        found = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{MANIFEST} is not TOML: {error}") from None
    allowed = {"subjects", "ignore", "lint_errors", "lint_warnings", "contexts", "subject"}
    _check_keys("the top level", found, allowed)
    contexts, subjects = (_tables(name, found.get(name, {})) for name in ("contexts", "subject"))
    scopes = {_context(name): (f"contexts.{name!r}", table) for name, table in contexts.items()}
    scopes |= {Subject.parse(name).qualified: (_where(name), table) for name, table in subjects.items()}
    if len(scopes) > _TABLES_MAX:
        raise FolderError(f"{MANIFEST} has more than {_TABLES_MAX} tables")
    for where, table in scopes.values():
        _check_keys(where, table, _SCOPE_KEYS if where.startswith("contexts") else _SUBJECT_KEYS)
    return Manifest(
        owned=tuple(map(_pattern, _texts("the top level", found, "subjects") or ())),
        ignored=_texts("the top level", found, "ignore") or (),
        lint_errors=_rules(found, "lint_errors"),
        lint_warnings=_rules(found, "lint_warnings"),
        subjects={Subject.parse(name).qualified: _subject(name, table) for name, table in subjects.items()},
        configs={scope: config for scope, (_, table) in scopes.items() if (config := _config(table))},
        modes={
            scope: mode for scope, (where, table) in scopes.items() if (mode := _text(where, table, "mode"))
        },
    )


_SCOPE_KEYS: Final = {"mode", *CONFIG}
_VERSION_KEYS: Final = {"file", "schemaType", "references", "metadata", "ruleSet"}
_SUBJECT_KEYS: Final = {*_SCOPE_KEYS, *_VERSION_KEYS, "versions"}


def _where(subject: str) -> str:
    return f"subject.{subject!r}"


def _context(name: str) -> str:
    if not name.startswith("."):
        raise FolderError(f"{MANIFEST}: contexts.{name!r}: the name of a context must begin with a dot")
    return "" if name == DEFAULT_CONTEXT else Subject(name, "").qualified


def _subject(name: str, table: dict[str, Any]) -> SubjectEntry:
    where = _where(name)
    versions: dict[int, VersionEntry] = {}
    for number, entry in _tables(f"{where}.versions", table.get("versions", {})).items():
        inside = f"{where}.versions.{number}"
        if not is_version_number(number):
            raise FolderError(f"{MANIFEST}: {inside}: a version number must be from 1 to {INT_MAX}")
        _check_keys(inside, entry, {*_VERSION_KEYS, "id", "deleted"})
        versions[int(number)] = _version(inside, entry)
    return SubjectEntry(_version(where, table), dict(sorted(versions.items())))


def _version(where: str, table: dict[str, Any]) -> VersionEntry:
    schema_type = _text(where, table, "schemaType")
    if schema_type is not None and schema_type not in FORMATS:
        raise FolderError(f"{MANIFEST}: {where}: schemaType must be one of {', '.join(sorted(FORMATS))}")
    schema_id, deleted = table.get("id", -1), table.get("deleted", False)
    if type(schema_id) is not int or not -1 <= schema_id <= INT_MAX or type(deleted) is not bool:
        raise FolderError(
            f"{MANIFEST}: {where}: id must be a whole number up to {INT_MAX}, and deleted true or false"
        )
    return VersionEntry(
        file=_text(where, table, "file"),
        schema_type=schema_type,
        references=_references(where, table),
        metadata=_read(where, table, "metadata", metadata),
        rule_set=_read(where, table, "ruleSet", rule_set),
        schema_id=schema_id,
        deleted=deleted,
    )


class _SentReference(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    subject: str
    version: int = LATEST


def _references(where: str, table: dict[str, Any]) -> tuple[Reference, ...] | None:
    def read(value: Any) -> tuple[Reference, ...]:
        found = msgspec.convert(value, list[_SentReference])
        return tuple(Reference(each.name, each.subject, each.version) for each in found)

    found: tuple[Reference, ...] | None = _read(where, table, "references", read)
    return found


def _read(where: str, table: dict[str, Any], key: str, read: Callable[[Any], Any]) -> Any:
    if key not in table:
        return None
    try:
        return read(table[key])
    except msgspec.ValidationError as error:
        raise FolderError(f"{MANIFEST}: {where}: {key}: {error}") from None


def _config(table: dict[str, Any]) -> dict[str, Any]:
    return {stored: table[name] for name, stored in CONFIG.items() if name in table}


def _tables(where: str, found: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise FolderError(f"{MANIFEST}: {where} must be a table of tables")
    return found


def _check_keys(where: str, table: dict[str, Any], allowed: Collection[str]) -> None:
    unknown = sorted(table.keys() - set(allowed))
    if unknown:
        listed = ", ".join(sorted(allowed))
        raise FolderError(f"{MANIFEST}: {where}: unknown key {unknown[0]}; allowed are {listed}")


def _text(where: str, table: dict[str, Any], key: str) -> str | None:
    found = table.get(key)
    if found is not None and not isinstance(found, str):
        raise FolderError(f"{MANIFEST}: {where}: {key} must be a string")
    return found


def _texts(where: str, table: dict[str, Any], key: str) -> tuple[str, ...] | None:
    found = table.get(key)
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise FolderError(f"{MANIFEST}: {where}: {key} must be an array of strings")
    return tuple(found)


def _rules(table: dict[str, Any], key: str) -> tuple[str, ...] | None:
    found = _texts("the top level", table, key)
    unknown = [each for each in found or () if each not in RULES]
    if unknown:
        raise FolderError(f"{MANIFEST}: {key}: unknown rule {unknown[0]}; there are {', '.join(RULES)}")
    return found


def _pattern(text: str) -> Pattern:
    try:
        return parse_pattern(text)
    except ValueError as error:
        raise FolderError(f"{MANIFEST}: subjects: {error}") from None
