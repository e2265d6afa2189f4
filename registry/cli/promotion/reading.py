"""Contents of a running registry, read through Confluent's API."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from registry.cli.client.client import RegistryClient
from registry.cli.client.resources import (
    Config,
    ErrorAnswer,
    NotARegistry,
    Place,
    RegistryError,
    scope_path,
    subject_path,
    version_path,
)
from registry.cli.folder.contents import Contents, Usage, Version, version_of
from registry.domain.model import LATEST, Reference, Subject
from registry.domain.subject_patterns import Pattern

from .streams import RegistryStreams

# Receives the name of a step, and how much of how much is done.
Progress = Callable[[str, int, int], None]

_FORBIDDEN: Final = 403
# So many scopes are rather read from the list of all.
_MANY: Final = 50
# How often it asks what a census found, while answers name different ones.
_ATTEMPTS: Final = 3
# Statuses of a registry without a list of schemas, or whose list the client may not read.
_NO_LIST: Final = range(400, 429)


def silent(step: str, done: int, total: int) -> None:
    """Ignore progress."""


class AliasFollowed(RegistryError):
    """A registry that answers for another subject, and lists no schemas by the names they have."""


class _OtherCensus(Exception):
    """Raised if a new census was published meanwhile, or a node has not heard of it yet."""


class RegistryReader:
    """Reads versions, configs and modes; each version once.

    Registries follow aliases in the paths of subjects, but not in the list of all schemas.
    """

    def __init__(self, client: RegistryClient, progress: Progress = silent) -> None:
        self._client, self._progress = client, progress
        self._versions: dict[tuple[str, int], Version] = {}
        self._numbers: dict[str, tuple[list[int], list[int]]] = {}
        self._latest: dict[str, int] = {}
        # Patterns, with the names of all subjects that they cover.
        self._named: list[tuple[Pattern, Collection[str]]] = []
        # Sentences about what could not be read.
        self.warnings: list[str] = []

    def subjects(self, patterns: Sequence[Pattern], *, deleted: bool = False) -> list[str]:
        """Return the subjects that any pattern covers, sorted; ``deleted``: also soft-deleted ones."""
        found: set[str] = set()
        for pattern in patterns:
            names = self._client.pages("/subjects", str, subjectPrefix=_prefix(pattern), deleted=deleted)
            found |= {each.qualified for each in map(Subject.parse, names) if pattern.covers(each)}
        if deleted:
            self._named += [(pattern, found) for pattern in patterns]
        return sorted(found)

    def read_ahead(self, pattern: Pattern, *, deleted: bool = False, latest: bool = False) -> None:
        """Read the versions that a pattern covers by pages, if the registry has such a list."""
        if not pattern.text.endswith("*"):
            return  # names that begin with this one may be many
        found = self._keep_listed(_prefix(pattern), pattern.covers, deleted=deleted, latest=latest)
        for subject, versions in (found or {}).items():
            if latest:
                self._latest[subject] = max(versions)
            elif None not in versions.values():
                gone = sorted(number for number, is_deleted in versions.items() if is_deleted)
                self._numbers[subject] = (sorted(versions), gone)

    def _keep_listed(
        self, prefix: str, wanted: Callable[[Subject], bool], *, deleted: bool, latest: bool = False
    ) -> dict[str, dict[int, bool | None]] | None:
        """Keep the versions of a list, if there is one.

        Return their numbers by subject, each with true if it is soft-deleted, or ``None`` if that is unknown.
        """
        found: dict[str, dict[int, bool | None]] = {}
        try:
            for entity in self._client.pages(
                "/schemas", subjectPrefix=prefix, deleted=deleted, latestOnly=latest
            ):
                subject, version = self._parse("/schemas", entity)
                if wanted(Subject.parse(subject)):
                    self._versions[subject, version.number] = version
                    found.setdefault(subject, {})[version.number] = (
                        entity.get("deleted") if deleted else False
                    )
        except NotARegistry:
            return None
        except ErrorAnswer as error:
            if error.status not in _NO_LIST:
                raise
            return None
        return found

    def numbers(self, subject: str) -> tuple[list[int], list[int]]:
        """Return the numbers of a subject's versions, and of those that are soft-deleted."""
        if subject not in self._numbers:
            path = f"{subject_path(subject)}/versions"
            everything = (
                [] if self._is_absent(subject) else self._optional(path, list[int], deleted=True) or []
            )
            live = self._optional(path, list[int]) or [] if everything else []
            self._numbers[subject] = (sorted(everything), sorted(set(everything) - set(live)))
            if everything:
                self.version(subject, max(everything))  # sees if these are the numbers of another subject
        return self._numbers[subject]

    def _is_absent(self, subject: str) -> bool:
        place = Subject.parse(subject)
        return any(pattern.covers(place) and subject not in names for pattern, names in self._named)

    def version(self, subject: str, number: int) -> Version | None:
        """Return a version, also a soft-deleted one; ``None`` if there is none."""
        place = (subject, number)
        if place not in self._versions:
            path = version_path(subject, number)
            found = self._optional(path, deleted=True)
            if found is None:
                return None
            real, version = self._parse(path, found)
            if real == subject:
                self._versions[place] = version
            else:
                self._read_own(subject, real)
        return self._versions.get(place)

    def _read_own(self, subject: str, real: str) -> None:
        """Read the versions of a subject for which the registry answers with those of ``real``."""
        lists = [
            self._keep_listed(subject, lambda each: each.qualified == subject, deleted=each)
            for each in (True, False)
        ]
        if None in lists:
            raise AliasFollowed(
                f"{self._client.url} answers for {subject} with {real}, and does not list the versions that "
                f"{subject} has itself: remove the alias, or name {real}"
            )
        everything, live = (sorted((found or {}).get(subject, ())) for found in lists)
        self._numbers[subject] = (everything, sorted(set(everything) - set(live)))

    def _parse(self, path: str, found: Any) -> tuple[str, Version]:
        try:
            return version_of(found)
        except msgspec.ValidationError as error:
            text = f"{self._client.url}{path} was answered with something else than a version: {error}"
            raise NotARegistry(text) from None

    def contents(self, places: Iterable[tuple[str, int]]) -> Contents:
        """Return the versions at ``places`` and all that these refer to, without configs and modes."""
        found: dict[tuple[str, int], Version] = {}
        left = list(places)
        while left:
            place = left.pop()
            if place in found:
                continue
            version = self.version(*place)
            self._progress(f"reading {self._client.url}", len(found), len(found) + len(left) + 1)
            if version is not None:
                # Answers of other registries do not say if a version is deleted.
                found[place] = replace(version, deleted=version.deleted or self._is_deleted(place))
                left += [target for each in version.references if (target := self._target(each, place[0]))]
        subjects: dict[str, list[Version]] = {}
        for place in sorted(found):
            subjects.setdefault(place[0], []).append(found[place])
        return Contents({subject: tuple(versions) for subject, versions in subjects.items()})

    def _is_deleted(self, place: tuple[str, int]) -> bool:
        subject, number = place
        if self._latest.get(subject) == number:
            return False
        everything, gone = self.numbers(subject)
        return number in gone or number not in everything

    def _target(self, reference: Reference, user: str) -> tuple[str, int] | None:
        subject = Subject.within(Subject.parse(user).context, reference.subject).qualified
        if reference.version != LATEST:
            return subject, reference.version
        return next(iter(self.latest_place(subject)), None)

    def all_places(self, subject: str, *, deleted: bool = True) -> list[tuple[str, int]]:
        """Return the places of all versions of a subject."""
        everything, gone = self.numbers(subject)
        return [(subject, each) for each in everything if deleted or each not in gone]

    def latest_place(self, subject: str) -> list[tuple[str, int]]:
        """Return the place of the latest version, if there is one."""
        if subject in self._latest:
            return [(subject, self._latest[subject])]
        return self.all_places(subject, deleted=False)[-1:]

    def read_scopes(self, scopes: Collection[str]) -> Contents:
        """Return the configs and modes of exactly these scopes."""
        configs = {
            scope: {key: each for key, each in config.items() if each is not None}
            for scope, config in self._read_stored("config", scopes).items()
        }
        modes = {
            scope: str(mode["mode"])
            for scope, mode in self._read_stored("mode", scopes).items()
            if mode.get("mode")
        }
        return Contents({}, configs, modes)

    def _read_stored(self, kind: str, scopes: Collection[str]) -> dict[str, Any]:
        """Return the configs or modes that there are; many by the list, if the client may read that."""
        listed = RegistryStreams(self._client).list_scopes(kind) if len(scopes) > _MANY else None
        if listed is not None:
            everything = {scope.qualified: stored for scope, stored in listed}
            return {scope: everything[scope] for scope in scopes if scope in everything}
        asked = {scope: self._read_permitted(kind, scope) for scope in scopes}
        return {scope: stored for scope, stored in asked.items() if stored}

    def usage(self, subjects: Sequence[str]) -> Usage | None:
        """Return what the newest census found of subjects; ``None`` if there is none, or it is not shown."""
        for _ in range(_ATTEMPTS):
            with suppress(_OtherCensus):
                return self._usage(subjects)
        self.warnings.append(
            "answers of the registry name different censuses, so plans compare with all versions"
        )
        return None

    def _usage(self, subjects: Sequence[str]) -> Usage | None:
        census: dict[str, Any] | None = None
        states: dict[tuple[str, int], str] = {}
        for subject in subjects:
            try:
                found = self._optional(f"/usage{subject_path(subject)}", dict[str, Any])
            except ErrorAnswer as error:
                if error.status != _FORBIDDEN and not error.is_unknown_resource:
                    raise
                self._warn("usage", error)
                return None
            if found is None or found["subject"] != subject:  # that of an alias
                continue
            if census is not None and (found["census"] or {}).get("id") != census["id"]:
                raise _OtherCensus
            census = found["census"]
            states |= {(subject, each["version"]): each["state"] for each in found["versions"]}
        return None if census is None else Usage(census, states, time.time_ns() // 1_000_000)

    def holders(self, context: str, schema_id: int) -> list[tuple[str, int]]:
        """Return the places of the versions that have an id in a context."""
        scope = Subject(context, "").qualified
        found = self._optional(f"/schemas/ids/{schema_id}/versions", list[Place], subject=scope, deleted=True)
        places = ((each["subject"], each["version"]) for each in found or ())
        return [place for place in places if Subject.parse(place[0]).context == context]

    def referrers(self, subject: str) -> list[tuple[str, int]]:
        """Return the places of live versions that refer to a subject; none if it does not list them."""
        ids: set[int] = set()
        for _, number in self.all_places(subject, deleted=False):
            path = f"{version_path(subject, number)}/referencedby"
            try:
                ids.update(self._optional(path, list[int]) or ())
            except ErrorAnswer as error:
                if error.status not in _NO_LIST:
                    raise
                self._warn("reference", error)
        context = Subject.parse(subject).context
        return [place for each in sorted(ids) for place in self.holders(context, each)]

    def _optional(self, path: str, kind: Any = Any, **params: Any) -> Any:
        try:
            return self._client.get(path, kind, **params)
        except ErrorAnswer as error:
            if error.is_verdict:  # not found, in the words of each registry
                return None
            raise

    def _read_permitted(self, kind: str, scope: str) -> Any:
        """Return a config or mode; nothing if the client may not read it, as few clients may everywhere."""
        try:
            return self._optional(scope_path(kind, scope), Config, defaultToGlobal="false")
        except ErrorAnswer as error:
            if error.status == _FORBIDDEN or error.is_unknown_resource:
                self._warn(kind, error)
                return None
            raise

    def _warn(self, kind: str, error: ErrorAnswer) -> None:
        text = f"the registry does not show every {kind}, so plans may miss some: {error}"
        if not any(each.startswith(text[:40]) for each in self.warnings):
            self.warnings.append(text)


def _prefix(pattern: Pattern) -> str:
    return ":*:" if pattern.range is None else pattern.text.removesuffix("*")
