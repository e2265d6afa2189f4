"""Plans as data: the steps, their order, and what the registry would say to each version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Literal, NamedTuple

from registry.domain.commands import Command, Register
from registry.domain.compatibility.results import CompatibilityResult

from .contents import Contents, FolderError, Version

# A subject, and the position of a version among the subject's, from 0.
Place = tuple[str, int]


def order_versions(contents: Contents) -> list[Place]:
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


Verdict = Literal["new", "compatible", "unchanged", "incompatible", "rejected", "skipped"]
# Verdicts of versions that the registry would refuse.
REFUSED: Final[frozenset[Verdict]] = frozenset({"incompatible", "rejected", "skipped"})


# Added, changed or removed.
Sign = Literal["+", "~", "-"]


# The members of what a command changes, as the API shows them: of the latest version, the config or the mode.
# ``None``: there is none.
State = dict[str, Any] | None


class Step(NamedTuple):
    """One change of the registry."""

    sign: Sign
    # Text for people.
    shows: str
    command: Command
    # The number that a registered version gets; 0 for other commands.
    number: int = 0
    # What the step was planned upon: it is not taken if the registry holds something else.
    planned_on: State = None
    # False for commands that have nothing to compare, such as imports.
    conditional: bool = False


class Outcome(NamedTuple):
    """The registry's answer to one version."""

    subject: str
    version: Version
    verdict: Verdict
    # The version's number in the registry; 0 if it is refused.
    number: int = 0
    # Reason of a refusal.
    message: str = ""
    # Every change since earlier versions, where there are any.
    result: CompatibilityResult | None = None
    # The subject whose refusal is the cause of this one; empty if this is a cause itself.
    because: str = ""


class Problem(NamedTuple):
    """A change that the registry would refuse, other than a version."""

    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, and what to report before them. With problems no step is taken."""

    steps: list[Step] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    # Observations that change nothing.
    notes: list[str] = field(default_factory=list)
    # Subjects that are in mode IMPORT meanwhile, with the modes of their own that they had before.
    former_modes: dict[str, str | None] = field(default_factory=dict)

    @property
    def refused_outcomes(self) -> list[Outcome]:
        """The versions that the registry would refuse."""
        return [each for each in self.outcomes if each.verdict in REFUSED]

    @property
    def possible(self) -> bool:
        """True if no step would be refused."""
        return not self.problems and not self.refused_outcomes


def registration(
    subject: str, version: Version, command: Register, number: int, planned_on: State = None
) -> Step:
    """Return the step that registers a version; an import is not conditional: its mode keeps others out."""
    kept = f" with id {command.schema_id}" if command.schema_id >= 0 else ""
    origin = f"  ({version.origin})" if version.origin else ""
    shows = f"{subject} version {number}{kept}{origin}"
    return Step("+", shows, command, number, planned_on, conditional=command.schema_id < 0)
