"""Contents of a folder or registry by subject, and versions as Confluent's API shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import orjson

from registry.domain.commands import Register
from registry.domain.model import DEFAULT_TYPE, LATEST, Metadata, Reference, RuleSet, Subject

# The file that describes a folder.
MANIFEST: Final = "registrar.toml"
# The largest id and number of a version, in every registry.
INT_MAX: Final = 2**31 - 1


class FolderError(Exception):
    """A folder, a manifest or a revision that cannot be used; the text names it and says why."""


def is_version_number(text: str) -> bool:
    """Return true if a text is the number of a version, without zeros in front."""
    plain = text.isascii() and text.isdecimal() and not text.startswith("0")
    return plain and len(text) <= len(str(INT_MAX)) and int(text) <= INT_MAX


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject."""

    text: str
    schema_type: str = DEFAULT_TYPE
    # Number in the registry, or in the folder, where it names the version for references; 0: no number.
    number: int = 0
    # Version -1 is the last one of the same contents, if these have the subject, else the registry's latest.
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    # -1 if unknown.
    schema_id: int = -1
    # True if it is soft-deleted.
    deleted: bool = False
    # The file that it was read from; empty for a registry's.
    origin: str = ""
    # Names to which no reference leads, each with a sentence about where it is.
    missing: tuple[tuple[str, str], ...] = ()

    def lacking(self, message: str) -> dict[str, str]:
        """Return the missing names that a refusal is about, each with the sentence where it is."""
        return {name: where for name, where in self.missing if name in message}

    def request(self, subject: str, **members: Any) -> Register:
        """Return the command that registers it."""
        content: dict[str, Any] = {
            "schema_type": self.schema_type,
            "references": list(self.references) or None,
            "metadata": self.metadata,
            "rule_set": self.rule_set,
        }
        return Register(subject, self.text, **content | members)


@dataclass(frozen=True, slots=True)
class Usage:
    """The versions in use by the newest census of a registry, for levels such as ``BACKWARD_USED``."""

    # As ``GET /usage/subjects/{subject}`` shows it.
    census: Mapping[str, Any]
    # By subject and number: used, unused or unknown.
    states: Mapping[tuple[str, int], str]
    # When it was said, in ms since the epoch.
    now: int


@dataclass(frozen=True, slots=True)
class Contents:
    """Versions, configs and modes; the keys are qualified names, an empty one is the top level."""

    # Ascending by number.
    versions: Mapping[str, tuple[Version, ...]] = field(default_factory=dict)
    # Members have the names of ``GET /config`` (``compatibilityLevel``). A missing config is not managed.
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    # ``None``: no census, or nothing that depends on one.
    usage: Usage | None = None

    def target(self, reference: Reference, user: str) -> tuple[str, int | None]:
        """Return the subject that a reference of ``user`` names, and its version's place, if there is one."""
        subject = Subject.within(Subject.parse(user).context, reference.subject).qualified
        places = list(enumerate(self.versions.get(subject, ())))
        if reference.version == LATEST:
            return subject, next((place for place, each in reversed(places) if not each.deleted), None)
        return subject, next((place for place, each in places if each.number == reference.version), None)

    def with_modes(self, modes: Mapping[str, str | None]) -> Contents:
        """Return these contents with other modes for some scopes; ``None``: no mode."""
        found = {scope: mode for scope, mode in {**self.modes, **modes}.items() if mode is not None}
        return replace(self, modes=found)

    def with_referenced(self, subjects: Iterable[str]) -> Contents:
        """Return a part of these contents: subjects, all that they refer to, and the configs of both."""
        found: dict[str, tuple[Version, ...]] = {}
        left = list(subjects)
        while left:
            subject = left.pop()
            if subject in found or subject not in self.versions:
                continue
            found[subject] = self.versions[subject]
            left += [self.target(each, subject)[0] for one in found[subject] for each in one.references]
        versions = {subject: each for subject, each in self.versions.items() if subject in found}
        scopes = [each for each in self.configs if each in found or Subject.parse(each).is_context]
        return Contents(versions, {scope: self.configs[scope] for scope in scopes}, {})

    def with_renamed(self, former: str, subject: str) -> Contents:
        """Return these contents with another name for a subject that no other one refers to."""
        versions = {subject if name == former else name: each for name, each in self.versions.items()}
        configs = {subject if name == former else name: each for name, each in self.configs.items()}
        return replace(self, versions=versions, configs=configs)

    def names(self, subject: str) -> bool:
        """Return true if anything is said of a subject."""
        return subject in self.versions or subject in self.configs or subject in self.modes

    def __iter__(self) -> Iterator[tuple[str, Version]]:
        """Yield all versions with their subjects."""
        for subject, versions in self.versions.items():
            for each in versions:
                yield subject, each


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
