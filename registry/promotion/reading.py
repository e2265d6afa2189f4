"""Contents of a running registry, read through Confluent's API."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from registry.client.client import RegistryClient
from registry.client.errors import ErrorAnswer, NotARegistry
from registry.client.paths import scope_path, subject_path, version_path
from registry.domain.model import ALL_CONTEXTS, LATEST, Reference, Subject
from registry.domain.subject_patterns import Pattern
from registry.folder.contents import Contents, Version
from registry.folder.exported import version_of

_FORBIDDEN: Final = 403


class RegistryReader:
    """Reads versions, configs and modes; each version once."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._versions: dict[tuple[str, int], Version] = {}
        self._numbers: dict[str, tuple[list[int], list[int]]] = {}

    def subjects(self, patterns: Sequence[Pattern], *, deleted: bool = False) -> list[str]:
        """Return the subjects that any pattern covers, sorted; ``deleted``: also soft-deleted ones."""
        found: set[str] = set()
        for pattern in patterns:
            prefix = ":*:" if pattern.range is None else pattern.text.removesuffix("*")
            names = self._client.pages("/subjects", subjectPrefix=prefix, deleted=deleted)
            found |= {each for each in names if any(one.covers(Subject.parse(each)) for one in patterns)}
        return sorted(found)

    def numbers(self, subject: str) -> tuple[list[int], list[int]]:
        """Return the numbers of a subject's versions, and of those that are soft-deleted."""
        if subject not in self._numbers:
            path = f"{subject_path(subject)}/versions"
            live = self._optional(path) or []
            everything = self._optional(path, deleted=True) or live
            self._numbers[subject] = (sorted(everything), sorted(set(everything) - set(live)))
        return self._numbers[subject]

    def version(self, subject: str, number: int) -> Version | None:
        """Return a version, also a soft-deleted one; ``None`` if there is none."""
        place = (subject, number)
        if place not in self._versions:
            path = version_path(subject, number)
            found = self._optional(path, deleted=True)
            if found is None:
                return None
            try:
                _, version = version_of(found)
            except msgspec.ValidationError as error:
                text = f"{self._client.url}{path} was answered with something else than a version: {error}"
                raise NotARegistry(text) from None
            # Answers of other registries do not tell if a version is deleted.
            self._versions[place] = replace(version, deleted=number in self.numbers(subject)[1])
        return self._versions[place]

    def contents(self, places: Iterable[tuple[str, int]]) -> Contents:
        """Return the versions at ``places`` and all that these refer to, without configs and modes."""
        found: dict[tuple[str, int], Version] = {}
        left = list(places)
        while left:
            place = left.pop()
            if place in found:
                continue
            version = self.version(*place)
            if version is not None:
                found[place] = version
                left += [target for each in version.references if (target := self._target(each, place[0]))]
        subjects: dict[str, list[Version]] = {}
        for place in sorted(found):
            subjects.setdefault(place[0], []).append(found[place])
        return Contents({subject: tuple(versions) for subject, versions in subjects.items()})

    def _target(self, reference: Reference, user: str) -> tuple[str, int] | None:
        subject = Subject.within(Subject.parse(user).context, reference.subject).qualified
        if reference.version != LATEST:
            return subject, reference.version
        everything, deleted = self.numbers(subject)
        live = [each for each in everything if each not in deleted]
        return (subject, live[-1]) if live else None

    def all_places(self, subject: str, *, deleted: bool = True) -> list[tuple[str, int]]:
        """Return the places of all versions of a subject."""
        everything, gone = self.numbers(subject)
        return [(subject, each) for each in everything if deleted or each not in gone]

    def latest_place(self, subject: str) -> list[tuple[str, int]]:
        """Return the place of the latest version, if there is one."""
        return self.all_places(subject, deleted=False)[-1:]

    def configured(self, scopes: Collection[str]) -> Contents:
        """Return the configs and modes of exactly these scopes."""
        configs, modes = {}, {}
        for scope in scopes:
            config = self._permitted(scope_path("config", scope))
            if config:
                configs[scope] = {key: each for key, each in config.items() if each is not None}
            mode = self._permitted(scope_path("mode", scope))
            if mode and mode.get("mode"):
                modes[scope] = mode["mode"]
        return Contents({}, configs, modes)

    def holders(self, context: str, schema_id: int) -> list[tuple[str, int]]:
        """Return the places of the versions that have an id in a context."""
        scope = Subject(context, "").qualified
        found = self._optional(f"/schemas/ids/{schema_id}/versions", subject=scope, deleted=True)
        places = ((each["subject"], each["version"]) for each in found or ())
        return [place for place in places if Subject.parse(place[0]).context == context]

    def _optional(self, path: str, **params: Any) -> Any:
        try:
            return self._client.get(path, **params)
        except ErrorAnswer as error:
            if error.is_verdict:  # not found, in the words of each registry
                return None
            raise

    def _permitted(self, path: str) -> Any:
        """Return a config or mode; nothing if the client may not read it, as few clients may everywhere."""
        try:
            return self._optional(path, defaultToGlobal="false")
        except ErrorAnswer as error:
            if error.status == _FORBIDDEN:
                return None
            raise


def present_for(
    reader: RegistryReader, wanted: Contents, owned: Sequence[Pattern] = (), *, keep_ids: bool = False
) -> Contents:
    """Return the part of a registry that a plan for ``wanted`` depends on.

    ``owned``: patterns of subjects that it may delete. ``keep_ids``: with the versions that have the ids.
    """
    subjects = {*wanted.versions, *wanted.configs, *wanted.modes, *reader.subjects(owned)}
    subjects = {each for each in subjects if each and not Subject.parse(each).is_context}
    for user, version in wanted:
        subjects |= {wanted.target(each, user)[0] for each in version.references}
    places = [place for each in sorted(subjects) for place in reader.all_places(each)]
    if keep_ids:
        places += _holders(reader, wanted, set(places))
    found = reader.contents(places)
    configured = reader.configured(_scopes(subjects, wanted))
    return Contents(found.versions, configured.configs, configured.modes)


def _holders(
    reader: RegistryReader, wanted: Contents, known: Collection[tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    ids = {(Subject.parse(subject).context, version.schema_id) for subject, version in wanted}
    held = {
        (Subject.parse(place[0]).context, version.schema_id)
        for place in known
        if (version := reader.version(*place)) is not None
    }
    for context, schema_id in sorted(ids - held):
        yield from reader.holders(context, schema_id)


def _scopes(subjects: Iterable[str], wanted: Contents) -> list[str]:
    """Return the scopes that decide over subjects: their own, their contexts', the top level, and all."""
    named = {*subjects, *wanted.configs, *wanted.modes}
    contexts = {Subject(Subject.parse(each).context, "").qualified for each in named}
    everywhere = Subject(ALL_CONTEXTS, "").qualified
    return sorted(named | contexts | {"", everywhere})


def wanted_of(
    reader: RegistryReader, patterns: Sequence[Pattern], *, latest: bool, configs: bool, deleted: bool
) -> Contents:
    """Return the subjects that patterns cover, with all versions that they refer to.

    ``latest``: only the latest version of each. ``configs``: with the configs and modes that these patterns
    cover. ``deleted``: with soft-deleted versions.
    """
    subjects = reader.subjects(patterns, deleted=deleted)
    places = [
        place
        for each in subjects
        for place in (reader.latest_place(each) if latest else reader.all_places(each, deleted=deleted))
    ]
    found = reader.contents(places)
    if not configs:
        return found
    contexts = {Subject(Subject.parse(each).context, "").qualified for each in subjects}
    covered = [each for each in contexts if any(one.covers(Subject.parse(each)) for one in patterns)]
    configured = reader.configured(sorted({*subjects, *covered}))
    modes = {scope: mode for scope, mode in configured.modes.items() if scope or mode != "READWRITE"}
    return Contents(found.versions, configured.configs, modes)
