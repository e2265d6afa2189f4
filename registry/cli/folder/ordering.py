"""Order in which versions can be registered: what is referred to comes first."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from .contents import Contents, FolderError, Version

# A subject, and the position of a version among the subject's, from 0.
Place = tuple[str, int]


def ordered(contents: Contents) -> list[Place]:
    """Return the places of all versions, each after those that it refers to and earlier ones of its subject.

    Raises :class:`.contents.FolderError` if references form a cycle.
    """
    graph: TopologicalSorter[Place] = TopologicalSorter()
    for subject in sorted(contents.versions):
        versions = contents.versions[subject]
        for place, version in enumerate(versions):
            graph.add((subject, place), *_before(contents, subject, place, version))
    try:
        return list(graph.static_order())
    except CycleError as error:
        raise FolderError(_cycle(contents, error.args[1])) from None


def _before(contents: Contents, subject: str, place: int, version: Version) -> list[Place]:
    found = [] if place == 0 else [(subject, place - 1)]
    for reference in version.references:
        target, used = contents.target(reference, subject)
        if used is not None:
            found.append((target, used))
    return found


def _cycle(contents: Contents, places: Sequence[Place]) -> str:
    # The error lists each place after one that needs it, and the first one again at the end.
    names = [_format(subject, contents.versions[subject][place]) for subject, place in reversed(places)]
    return f"the references form a cycle: {' -> '.join(names)}; remove one of them"


def _format(subject: str, version: Version) -> str:
    return f"{subject} version {version.number}" if version.number else subject
