"""What ``$ref`` means: the ``referencing`` library over a schema and those it refers to; nothing is fetched.

A reference of the registry has the URI of a schema as its name, relative to the ``$id`` of the schema that
is registered (Confluent 8.x). The meta-schemas are known. ``#/$defs/X`` finds what is under ``definitions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urljoin

from jsonschema_specifications import REGISTRY
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable

from registry.domain.schemas.contract import Dependency, InvalidSchema
from registry.domain.schemas.json_scanner import Json

from .drafts import Draft
from .text import read

Resolver = Any
"""Where a schema stands, so that what it refers to is found: ``referencing``'s resolver."""


class Documents:
    """One schema with all that it may refer to."""

    def __init__(
        self, schema: Json, draft: Draft, dependencies: Sequence[Dependency], *, refers: bool
    ) -> None:
        """``refers``: there may be references in it, so that ids matter.

        Raises :class:`InvalidSchema` where a dependency is no JSON, or a URI none.
        """
        self._draft = draft
        self._refers = refers
        self._roots: set[int] = set()
        self._uris: dict[str, str] = {}
        registry: Registry[Any] = REGISTRY
        named = schema.get(draft.id_keyword) if type(schema) is dict else None
        base = named.removesuffix("#") if type(named) is str else ""
        try:
            registry = registry.with_resource("", self._resource(schema))
            if base:
                registry = registry.with_resource(base, self._resource(schema))
            for each in dependencies:
                uri = urljoin(base, each.name).partition("#")[0]
                if uri not in (base, ""):
                    self._uris[each.name.removeprefix("./")] = uri
                    registry = registry.with_resource(uri, self._resource(read(each.text)))
        except ValueError as error:
            raise InvalidSchema(f"Invalid JSON Schema: {error}") from None
        self._base = base
        self.top: Resolver = (_crawled(registry) if refers else registry).resolver(base)
        """Where the schema itself stands."""

    def _resource(self, contents: Json) -> Resource[Any]:
        self._roots.add(id(contents))
        return self._draft.specification.create_resource(contents)

    def inside(self, schema: dict[str, Json], resolver: Resolver) -> Resolver:
        """Where the contents of ``schema`` stand: an id of its own counts for them."""
        if not self._refers or self._draft.id_keyword not in schema:
            return resolver
        try:
            return resolver.in_subresource(self._draft.specification.create_resource(schema))
        except Exception:
            raise InvalidSchema(
                f"Invalid JSON Schema: '{schema[self._draft.id_keyword]}' is no URI"
            ) from None

    def find(self, reference: str, resolver: Resolver) -> tuple[Json, Resolver]:
        """The schema that a ``$ref`` names, and where it stands. Raises :class:`InvalidSchema`."""
        for wanted in self._candidates(reference):
            try:
                found = resolver.lookup(wanted)
            except Unresolvable:
                continue
            except Exception:  # what the library says of ids and schemas that make no sense
                break
            contents = found.contents
            if id(contents) in self._roots and "#" not in wanted and type(contents) is dict:
                return contents, self.inside(contents, found.resolver)
            return contents, found.resolver
        if _is_remote(self._base, reference):
            raise InvalidSchema(
                f"Remote schema reference fetching over HTTP(S) is disabled; cannot resolve '{reference}'"
            )
        raise InvalidSchema(f"Invalid JSON Schema: cannot resolve '{reference}'")

    def _candidates(self, reference: str) -> list[str]:
        uri, mark, fragment = reference.partition("#")
        known = self._uris.get(uri.removeprefix("./")) if uri else None
        uris = [uri] if known is None else [uri, known]
        found = [f"{each}{mark}{fragment}" for each in uris]
        if fragment.startswith("/$defs/"):
            found += [f"{each}#/definitions/{fragment.removeprefix('/$defs/')}" for each in uris]
        return found


def _is_remote(base: str, reference: str) -> bool:
    try:
        return urljoin(base, reference).startswith(("http://", "https://"))
    except ValueError:
        return False


def _crawled(registry: Registry[Any]) -> Registry[Any]:
    """With all ids and anchors found once, and not anew for each reference."""
    try:
        return registry.crawl()
    except Exception:  # what nothing refers to may make no sense
        return registry
