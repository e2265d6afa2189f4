"""Plans as data: the steps, and what the registry would say to each version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from registry.domain.commands import Command, Register
from registry.domain.compatibility.results import CompatibilityResult

from .contents import Version

Verdict = Literal["new", "compatible", "unchanged", "incompatible", "rejected", "skipped"]
# Verdicts of versions that the registry would refuse.
REFUSED: Final[frozenset[Verdict]] = frozenset({"incompatible", "rejected", "skipped"})


# Added, changed or removed.
Sign = Literal["+", "~", "-"]


class Step(NamedTuple):
    """One change of the registry."""

    sign: Sign
    # Text for people.
    shows: str
    command: Command
    # The number that a registered version gets; 0 for other commands.
    number: int = 0


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
    """Steps in order, and what is to be told before them. With problems no step is taken."""

    steps: list[Step] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    # Observations that change nothing.
    notes: list[str] = field(default_factory=list)
    # Subjects that are in mode IMPORT meanwhile, with the modes of their own that they had before.
    former_modes: dict[str, str | None] = field(default_factory=dict)

    @property
    def refused(self) -> list[Outcome]:
        """The versions that the registry would refuse."""
        return [each for each in self.outcomes if each.verdict in REFUSED]

    @property
    def possible(self) -> bool:
        """True if no step would be refused."""
        return not self.problems and not self.refused


def registration(subject: str, version: Version, command: Register, number: int) -> Step:
    """Return the step that registers a version."""
    kept = f" with id {command.schema_id}" if command.schema_id >= 0 else ""
    origin = f"  ({version.origin})" if version.origin else ""
    return Step("+", f"{subject} version {number}{kept}{origin}", command, number)
