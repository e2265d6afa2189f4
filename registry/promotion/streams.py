"""Everything that a running registry holds, read through its API without keeping it in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import msgspec

from registry.client.client import RegistryClient
from registry.client.errors import ErrorAnswer, NotARegistry
from registry.client.paths import scope_path
from registry.domain.model import EVERYWHERE, TOP, Subject
from registry.folder.exported import version_of

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
    Every member raises :class:`registry.client.errors.RegistryError`.
    """

    def __init__(self, client: RegistryClient) -> None:
        self._client = client

    @cached_property
    def subjects(self) -> list[str]:
        """The qualified names of all subjects."""
        return list(self._client.pages("/subjects", subjectPrefix=_ALL, deleted=True))

    def versions(self) -> Iterator[dict[str, Any]]:
        """Yield all versions as ``GET /schemas`` shows them."""
        for entity in self._client.pages("/schemas", subjectPrefix=_ALL, deleted=True):
            try:
                version_of(entity)
            except msgspec.ValidationError as error:
                raise self._nonsense("/schemas", error) from None
            yield entity

    def configs(self) -> Iterator[tuple[Subject, dict[str, Any]]]:
        """Yield all configs with their scopes, as ``GET /config/{subject}`` shows them."""
        return self._stored("config")

    def modes(self) -> Iterator[tuple[Subject, dict[str, Any]]]:
        """Yield all modes with their scopes, as ``GET /mode/{subject}`` shows them."""
        return self._stored("mode")

    def _stored(self, kind: str) -> Iterator[tuple[Subject, dict[str, Any]]]:
        """Read the list, which only Registrar has, for administrators; or ask for each scope."""
        try:
            yield from self._listed(kind)
        except ErrorAnswer as error:
            if error.status not in _NO_LIST:
                raise
        except (NotARegistry, msgspec.ValidationError):
            pass  # a proxy's page for an unknown path
        else:
            return
        yield from self._of_each_scope(kind)

    def _listed(self, kind: str) -> Iterator[tuple[Subject, dict[str, Any]]]:
        for each in self._client.pages(f"/admin/{kind}s"):
            found = msgspec.convert(each, _Stored)
            yield Subject.parse(found.subject), getattr(found, kind)

    def _of_each_scope(self, kind: str) -> Iterator[tuple[Subject, dict[str, Any]]]:
        for scope in self._scopes():
            path = scope_path(kind, scope.qualified)
            try:
                yield scope, msgspec.convert(self._client.get(path), dict[str, Any])
            except msgspec.ValidationError as error:
                raise self._nonsense(path, error) from None
            except ErrorAnswer as error:
                if error.status != _NOT_FOUND:
                    raise

    def _scopes(self) -> Iterator[Subject]:
        contexts = {str(name) for name in self._client.pages("/contexts")}
        for name in self.subjects:
            subject = Subject.parse(name)
            contexts.add(subject.context)
            yield subject
        for context in sorted(contexts | {TOP.context, EVERYWHERE.context}):
            yield Subject(context, "")

    def _nonsense(self, path: str, error: msgspec.ValidationError) -> NotARegistry:
        return NotARegistry(f"{self._client.url}{path} was answered with something unexpected: {error}")
