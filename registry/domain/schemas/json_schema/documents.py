"""What ``$ref`` means: the ``referencing`` library over a schema and those it refers to; nothing is fetched.

A reference of the registry has the URI of a schema as its name, relative to the ``$id`` of the schema that
is registered (Confluent 8.x). The meta-schemas are known. ``#/$defs/X`` finds what is under ``definitions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urljoin

from jsonschema_specifications import REGISTRY
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable

from registry.domain.schemas.contract import Dependency, InvalidSchema
from registry.domain.schemas.json_scanner import Json

from .drafts import META_SCHEMAS, Draft
from .text import read

# ``referencing``'s own.
Resolver = Any


class Place(NamedTuple):
    """Where a schema stands, so that what it refers to is found, and the draft that it is read by.

    That is the draft of the schema registered, also for what this refers to (Confluent 8.x).
    """

    resolver: Resolver
    draft: Draft


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
        registry = _crawled(registry) if refers else registry
        self._bare: Resolver = registry.resolver()
        # Where the schema itself stands.
        self.top = Place(registry.resolver(base), draft)

    def _resource(self, contents: Json) -> Resource[Any]:
        self._roots.add(id(contents))
        return self._draft.specification.create_resource(contents)

    def inside(self, schema: dict[str, Json], place: Place) -> Place:
        """Where the contents of ``schema`` stand: an id of its own counts for them."""
        if not self._refers or place.draft.id_keyword not in schema:
            return place
        try:
            resource = place.draft.specification.create_resource(schema)
            return Place(place.resolver.in_subresource(resource), place.draft)
        except Exception:
            named = schema[place.draft.id_keyword]
            raise InvalidSchema(f"Invalid JSON Schema: '{named}' is no URI") from None

    def find(self, reference: str, there: Place) -> tuple[Json, Place]:
        """The schema that a ``$ref`` names, and where its contents stand. Raises :class:`InvalidSchema`."""
        for resolver, wanted in self._candidates(reference, there.resolver):
            try:
                found = resolver.lookup(wanted)
            except Unresolvable:
                continue
            except Exception:  # what the library says of ids and schemas that make no sense
                break
            contents, place = found.contents, Place(found.resolver, there.draft)
            if not wanted.startswith("#"):
                root = found.resolver.lookup("#").contents
                place = Place(found.resolver, META_SCHEMAS.get(id(root), there.draft))
                if id(contents) in self._roots and type(contents) is dict:
                    place = self.inside(contents, place)
            return contents, place
        if _is_remote(self._base, reference):
            raise InvalidSchema(
                f"Remote schema reference fetching over HTTP(S) is disabled; cannot resolve '{reference}'"
            )
        raise InvalidSchema(f"Invalid JSON Schema: cannot resolve '{reference}'")

    def _candidates(self, reference: str, resolver: Resolver) -> list[tuple[Resolver, str]]:
        """What may be meant, and from where: as it is written, else a dependency's name as is."""
        uri, mark, fragment = reference.partition("#")
        known = self._uris.get(uri.removeprefix("./")) if uri else None
        found = [(resolver, uri)] if known is None else [(resolver, uri), (self._bare, known)]
        wanted = [(each, f"{start}{mark}{fragment}") for each, start in found]
        if fragment.startswith("/$defs/"):
            other = fragment.removeprefix("/$defs/")
            wanted += [(each, f"{start}#/definitions/{other}") for each, start in found]
        return wanted


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
