"""Contents of a folder, or of a part of a registry: versions, configs and modes by subject."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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
class Contents:
    """Versions, configs and modes; the keys are qualified names, an empty one is the top level."""

    # Ascending by number.
    versions: Mapping[str, tuple[Version, ...]] = field(default_factory=dict)
    # Members have the names of ``GET /config`` (``compatibilityLevel``). A missing config is not managed.
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)

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
        return Contents(self.versions, self.configs, found)

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

    def renamed(self, former: str, subject: str) -> Contents:
        """Return these contents with another name for a subject that no other one refers to."""
        versions = {subject if name == former else name: each for name, each in self.versions.items()}
        configs = {subject if name == former else name: each for name, each in self.configs.items()}
        return Contents(versions, configs, self.modes)

    def names(self, subject: str) -> bool:
        """Return true if anything is said of a subject."""
        return subject in self.versions or subject in self.configs or subject in self.modes

    def __iter__(self) -> Iterator[tuple[str, Version]]:
        """Yield all versions with their subjects."""
        for subject, versions in self.versions.items():
            for each in versions:
                yield subject, each
