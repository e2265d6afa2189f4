"""Everything that a running registry holds, read through its API without keeping it in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import msgspec

from registry.cli.client.client import RegistryClient, listed_versions
from registry.cli.client.resources import Config, ErrorAnswer, NotARegistry, scope_path, version_path
from registry.cli.folder.contents import version_of
from registry.domain.model import EVERYWHERE, TOP, Subject

_ALL: Final = ":*:"
# Statuses of a registry without a list of configs, or whose list the client may not read.
_NO_LIST: Final = range(400, 429)
_NOT_FOUND: Final = 404


class _Stored(msgspec.Struct):
    """An item in the list of all configs, or of all modes."""

    subject: str
    config: dict[str, Any] = {}
    mode: dict[str, Any] = {}


class RegistryStreams:
    """Subjects, versions, configs and modes of all contexts, soft-deleted ones included.

    A page is held in memory, and the names of the subjects. Writes that happen meanwhile may be missing.
    Every member raises :class:`registry.cli.client.resources.RegistryError`.
    """

    def __init__(self, client: RegistryClient) -> None:
        self._client = client

    @cached_property
    def subjects(self) -> list[str]:
        """The qualified names of all subjects."""
        return list(self._client.pages("/subjects", str, subjectPrefix=_ALL, deleted=True))

    def versions(self) -> Iterator[dict[str, Any]]:
        """Yield all versions as ``GET /schemas`` shows them, with those that the list leaves out."""
        listed = set()
        for entity in self._client.pages("/schemas", subjectPrefix=_ALL, deleted=True):
            subject = self._check_subject("/schemas", entity)
            listed.add(subject)
            yield entity
        # Apicurio's list is empty.
        for subject in self.subjects:
            if Subject.parse(subject).qualified not in listed:
                yield from self._versions_of(subject)

    def _versions_of(self, subject: str) -> Iterator[dict[str, Any]]:
        try:
            numbers = listed_versions(self._client, subject, deleted=True)
            for number, deleted in numbers.items():
                path = version_path(subject, number)
                entity = self._client.get(path, deleted=True)
                self._check_subject(path, entity)
                yield {"deleted": deleted, **entity}
        except ErrorAnswer as error:
            # Apicurio lists soft-deleted subjects, and then shows nothing of them.
            if not error.is_verdict:
                raise

    def _check_subject(self, path: str, entity: Any) -> str:
        """Return the subject of a version."""
        try:
            return version_of(entity)[0]
        except msgspec.ValidationError as error:
            raise self._invalid_answer(path, error) from None

    def configs(self) -> Iterator[tuple[Subject, dict[str, Any]]]:
        """Yield all configs with their scopes, as ``GET /config/{subject}`` shows them."""
        return self._read_stored("config")

    def modes(self) -> Iterator[tuple[Subject, dict[str, Any]]]:
        """Yield all modes with their scopes, as ``GET /mode/{subject}`` shows them."""
        return self._read_stored("mode")

    def _read_stored(self, kind: str) -> Iterator[tuple[Subject, dict[str, Any]]]:
        listed = self.list_scopes(kind)
        return self._of_each_scope(kind) if listed is None else iter(listed)

    def list_scopes(self, kind: str) -> list[tuple[Subject, dict[str, Any]]] | None:
        """Return the list of all configs or modes, which only Registrar has, for administrators."""
        try:
            found = [msgspec.convert(each, _Stored) for each in self._client.pages(f"/admin/{kind}s")]
        except ErrorAnswer as error:
            if error.status not in _NO_LIST:
                raise
            return None
        except (NotARegistry, msgspec.ValidationError):
            return None  # a proxy's page for an unknown path
        return [(Subject.parse(each.subject), getattr(each, kind)) for each in found]

    def _of_each_scope(self, kind: str) -> Iterator[tuple[Subject, dict[str, Any]]]:
        for scope in self._scopes():
            path = scope_path(kind, scope.qualified)
            try:
                yield scope, self._client.get(path, Config)
            except ErrorAnswer as error:
                if error.status != _NOT_FOUND:
                    raise

    def _scopes(self) -> Iterator[Subject]:
        contexts = set(self._client.pages("/contexts", str))
        for name in self.subjects:
            subject = Subject.parse(name)
            contexts.add(subject.context)
            yield subject
        for context in sorted(contexts | {TOP.context, EVERYWHERE.context}):
            yield Subject(context, "")

    def _invalid_answer(self, path: str, error: msgspec.ValidationError) -> NotARegistry:
        return NotARegistry(f"{self._client.url}{path} was answered with something unexpected: {error}")
