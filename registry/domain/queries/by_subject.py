"""Reads by subject: versions, or the error if there are none, and the references around a version.

Subjects come as the text of the path or query, because an unqualified one is also looked up in other
contexts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from registry.domain import errors
from registry.domain.model import DEFAULT_CONTEXT, LATEST, VERSION_MAX, Reference, Subject
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from . import entities, lists, versions
from .versions import Registered
from .walks import Search, run_search

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def parse_version(text: str) -> int:
    """Return the number in a path: ``latest`` and -1 are :data:`.model.LATEST`. Raises 42202."""
    trimmed = text.strip()
    if trimmed.lower() == "latest":
        return LATEST
    number = int(trimmed) if _INTEGER.fullmatch(trimmed) else 0
    if number == LATEST or 1 <= number <= VERSION_MAX:
        return number
    raise errors.INVALID_VERSION(text)


def version_of(view: View, subject: Subject, number: int, *, deleted: bool = False) -> Registered:
    """Return one version, or the latest that is not soft-deleted. Raises 40401, 40402."""
    return run_search(find_version(view, subject, number, deleted=deleted))


def find_version(view: View, subject: Subject, number: int, *, deleted: bool = False) -> Search[Registered]:
    """Search for the version that :func:`version_of` returns. Raises 40401, 40402."""
    found = yield from _find(view, subject, number, deleted=deleted)
    if found is None:
        yield from require(view, subject, deleted=deleted)
        raise errors.VERSION_NOT_FOUND(number)
    return found


def _find(view: View, subject: Subject, number: int, *, deleted: bool) -> Search[Registered | None]:
    found = yield from versions.find_named(view, subject, number)
    return None if found is None or (found.row.deleted and not deleted) else found


def version_anywhere(
    view: View, subject: Subject, number: int, *, deleted: bool = False
) -> Search[Registered]:
    """Search as :func:`find_version`; if absent in the default context, then in the others, in order."""
    if subject.context == DEFAULT_CONTEXT and not (
        yield from versions.find_any(view, subject, deleted=deleted)
    ):
        for context in versions.contexts(view):
            yield
            if context in (None, DEFAULT_CONTEXT):
                continue
            found = yield from _find(view, Subject(context, subject.name), number, deleted=deleted)
            if found is not None:
                return found
    return (yield from find_version(view, subject, number, deleted=deleted))


def version_with_metadata(
    view: View, subject: Subject, wanted: Iterable[tuple[str, str]], *, deleted: bool = False
) -> Search[Registered]:
    """Search for the highest version whose properties contain all wanted pairs. Raises 40401, 40403."""
    pairs = list(wanted)
    seen = False
    for each in versions.walk(view, subject, deleted=deleted, newest_first=True):
        yield
        if each is None:
            continue
        seen = True
        meta = entities.metadata(each.row)
        properties = (meta.properties if meta else None) or {}
        if all(properties.get(key) == value for key, value in pairs):
            return each
    raise errors.SCHEMA_NOT_FOUND() if seen else errors.SUBJECT_NOT_FOUND(subject.qualified)


def version_numbers(
    view: View,
    subject: Subject,
    *,
    deleted: bool = False,
    deleted_only: bool = False,
    deleted_as_negative: bool = False,
) -> list[int]:
    """Return a subject's versions as :func:`.lists.version_numbers` lists them. Raises 40401.

    ``deleted_as_negative`` does not affect whether the subject counts as existing.
    """
    run_search(require(view, subject, deleted=deleted or deleted_only))
    found = lists.version_numbers(
        view,
        subject,
        deleted=deleted,
        deleted_only=deleted_only,
        deleted_as_negative=deleted_as_negative,
    )
    return [each for each in found if each is not None]


def require(view: View, subject: Subject, *, deleted: bool = False) -> Search[None]:
    """Search for any version of the subject with this visibility. Raises 40401 if there is none."""
    if not (yield from versions.find_any(view, subject, deleted=deleted)):
        raise errors.SUBJECT_NOT_FOUND(subject.qualified)


def subjects(view: View, prefix: str, *, deleted: bool = False) -> list[str]:
    """Return the qualified names of all subjects under a prefix, in the order of :func:`.lists.subjects`."""
    found = lists.subjects(view, prefix, deleted=deleted)
    return [each.qualified for each in found if each is not None]


def ranges(view: View, table: bytes, prefix: str) -> list[tuple[bytes, Callable[[Subject], bool]]]:
    """Return the key prefixes in a table that cover all subjects under a prefix, each with a filter."""
    if prefix == ":*:":
        return [(table, lambda _: True)]
    if prefix.startswith(":*:"):
        contexts = (DEFAULT_CONTEXT, *versions.contexts_known(view))
        return [_names_range(table, Subject(context, prefix[3:])) for context in contexts]
    if prefix.startswith(":.") and ":" not in prefix[1:]:
        return [(table + layout.part_prefix(prefix[1:]), lambda each: each.context.startswith(prefix[1:]))]
    return [_names_range(table, Subject.parse(prefix))]


def _names_range(table: bytes, first: Subject) -> tuple[bytes, Callable[[Subject], bool]]:
    start = layout.context_key(table, first.context) + layout.part_prefix(first.name)
    return start, lambda each: each.name.startswith(first.name)


def id_in_scope(view: View, schema_id: int, scope: str) -> Search[Registered]:
    """Search for the version that answers for an id in ``scope``. Raises 40403."""
    found = yield from versions.by_id_in_scope(view, schema_id, scope)
    if found is None:
        raise errors.SCHEMA_NOT_FOUND()
    return found


def ids_of_guid(view: View, md5: bytes) -> Iterator[tuple[str, int] | None]:
    """Walk the (context, id) pairs of a schema content in order."""
    for context in versions.contexts(view):
        yield None
        if context is not None:
            ids = {each.row.schema_id for each in versions.of_content(view, context, md5)}
            yield from ((context, schema_id) for schema_id in sorted(ids))


# References shown for each node that is shown.
EDGES_PER_NODE_MAX = 10


class GraphNode(NamedTuple):
    """A version in the graph; ``found`` is ``None`` if it no longer exists."""

    subject: Subject
    version: int
    # Steps from the version in the middle; negative for those that use it.
    depth: int
    found: Registered | None


@dataclass(slots=True)
class Graph:
    """The versions, the one asked for first, and their references as (user, used, name)."""

    nodes: list[GraphNode] = field(default_factory=list)
    edges: dict[tuple[int, int, str], None] = field(default_factory=dict)
    # False if there is more than the limit allows.
    complete: bool = True


def graph(view: View, start: Registered, limit: int, *, referrers: bool = True) -> Search[Graph]:
    """Search breadth-first for at most ``limit`` versions around ``start``; in both directions if wanted."""
    found = _Growing(limit)
    found.add(GraphNode(start.subject, start.version, 0, start))
    directions = ((1, _references_of), (-1, _users)) if referrers else ((1, _references_of),)
    for step, next_of in directions:
        waiting = deque([0])
        while waiting:
            place = waiting.popleft()
            node = found.graph.nodes[place]
            if node.found is None:
                continue
            for name, other in next_of(view, node.found):
                yield
                if other is None:
                    continue
                known = (other.subject, other.version) in found.places
                index = found.add(other._replace(depth=node.depth + step))
                if index is None or not found.connect(place, index, name, step):
                    break
                if not known:
                    waiting.append(index)
    return found.graph


class _Growing:
    """A graph while it is searched."""

    def __init__(self, limit: int) -> None:
        self.graph = Graph()
        self.places: dict[tuple[Subject, int], int] = {}
        self._limit = limit

    def add(self, node: GraphNode) -> int | None:
        """Return the index of the node, which is added if it is new; ``None`` if there is no room."""
        place = self.places.get((node.subject, node.version))
        if place is not None:
            return place
        if len(self.graph.nodes) >= self._limit:
            self.graph.complete = False
            return None
        self.places[node.subject, node.version] = place = len(self.graph.nodes)
        self.graph.nodes.append(node)
        return place

    def connect(self, place: int, other: int, name: str, step: int) -> bool:
        """Add the reference between two nodes; return false if there is no room."""
        if len(self.graph.edges) >= self._limit * EDGES_PER_NODE_MAX:
            self.graph.complete = False
            return False
        edge = (place, other, name) if step > 0 else (other, place, name)
        self.graph.edges[edge] = None
        return True


# The name of a reference and the version at its other end; None for a row that is not shown.
_Step = tuple[str, GraphNode | None]


def _references_of(view: View, node: Registered) -> Iterator[_Step]:
    for each in entities.references(node.row):
        subject = Subject.within(node.subject.context, each.subject)
        found = versions.version_numbered(view, subject, each.version)
        version = each.version if found is None else found.version
        yield each.name, GraphNode(subject, version, 0, found)


def _users(view: View, node: Registered) -> Iterator[_Step]:
    prefix = layout.referrer_prefix(node.subject, node.version)
    for key, _ in scan(view, prefix):
        found = versions.at(view, layout.VERSION + key[len(prefix) :])
        if found is None:
            yield "", None
            continue
        reference = next((each for each in entities.references(found.row) if _is_to(each, found, node)), None)
        yield reference.name if reference else "", GraphNode(found.subject, found.version, 0, found)


def _is_to(reference: Reference, user: Registered, used: Registered) -> bool:
    target = Subject.within(user.subject.context, reference.subject)
    return (target, reference.version) == (used.subject, used.version)
