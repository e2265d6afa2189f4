"""The references around a version: everything that it uses, and everything that uses it, nearest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from registry.domain.model import Reference, Subject
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from . import entities, versions
from .versions import Registered
from .walks import Search

# References shown for each node that is shown.
EDGES_PER_NODE_MAX = 10


class Node(NamedTuple):
    """A version in the graph; ``found`` is ``None`` if it no longer exists."""

    subject: Subject
    version: int
    # Steps from the version in the middle; negative for those that use it.
    depth: int
    found: Registered | None


@dataclass(slots=True)
class Graph:
    """The versions, the one asked for first, and their references as (user, used, name)."""

    nodes: list[Node] = field(default_factory=list)
    edges: dict[tuple[int, int, str], None] = field(default_factory=dict)
    # False if there is more than the limit allows.
    complete: bool = True


def graph(view: View, start: Registered, limit: int) -> Search[Graph]:
    """Search breadth-first in both directions for at most ``limit`` versions around ``start``."""
    found = _Growing(limit)
    found.add(Node(start.subject, start.version, 0, start))
    for step, next_of in ((1, _references_of), (-1, _users)):
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

    def add(self, node: Node) -> int | None:
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
_Step = tuple[str, Node | None]


def _references_of(view: View, node: Registered) -> Iterator[_Step]:
    for each in entities.references(node.row):
        subject = Subject.within(node.subject.context, each.subject)
        found = versions.named(view, subject, each.version)
        version = each.version if found is None else found.version
        yield each.name, Node(subject, version, 0, found)


def _users(view: View, node: Registered) -> Iterator[_Step]:
    prefix = layout.referrer_prefix(node.subject, node.version)
    for key, _ in scan(view, prefix):
        found = versions.at(view, layout.VERSION + key[len(prefix) :])
        if found is None:
            yield "", None
            continue
        reference = next((each for each in entities.references(found.row) if _is_to(each, found, node)), None)
        yield reference.name if reference else "", Node(found.subject, found.version, 0, found)


def _is_to(reference: Reference, user: Registered, used: Registered) -> bool:
    target = Subject.within(user.subject.context, reference.subject)
    return (target, reference.version) == (used.subject, used.version)
