"""A plan in progress, and what is common to all ways of planning."""

from __future__ import annotations

from dataclasses import dataclass, field

from registry.domain.commands import Command
from registry.domain.errors import RegistryError

from .contents import Contents, Version
from .memory_registry import MemoryRegistry
from .ordering import Place
from .steps import REFUSED, Outcome, Plan, Problem, Sign, Step


@dataclass(frozen=True, slots=True)
class Planning:
    """A plan in progress. The registry in memory has taken all steps so far."""

    wanted: Contents
    registry: MemoryRegistry
    plan: Plan = field(default_factory=Plan)
    # The numbers that versions have in the registry.
    numbers: dict[Place, int] = field(default_factory=dict)
    # The subjects that caused the refusal of versions.
    causes: dict[Place, str] = field(default_factory=dict)
    # The first subject in which a name is missing.
    lacking: dict[str, str] = field(default_factory=dict)

    def version(self, place: Place) -> Version:
        """Return the wanted version at a place."""
        subject, position = place
        return self.wanted.versions[subject][position]

    def change(self, sign: Sign, shows: str, command: Command) -> None:
        """Add a step, or a problem if the registry would refuse it."""
        try:
            self.registry.submit(command)
        except RegistryError as error:
            self.problem(getattr(command, "subject", None) or "", f"{shows}: {error.message}")
        else:
            self.plan.steps.append(Step(sign, shows, command))

    def add(self, place: Place, outcome: Outcome) -> None:
        """Add the outcome of a version."""
        self.plan.outcomes.append(outcome)
        if outcome.verdict in REFUSED:
            self.causes[place] = outcome.because or outcome.subject
        else:
            self.numbers[place] = outcome.number

    def skipped(self, place: Place) -> Outcome | None:
        """Return an outcome if the version at a place refers to one that is not registered."""
        version = self.version(place)
        for reference in version.references:
            target, used = self.wanted.target(reference, place[0])
            if used is None or (target, used) in self.numbers:
                continue
            found = self.version((target, used))
            text = f"refers to {target}, which is itself refused"
            if found.deleted:
                text = f"refers to {target} version {found.number}, which is soft-deleted: undelete it first"
            cause = self.causes.get((target, used), "")
            return Outcome(place[0], version, "skipped", message=text, because=cause)
        return None

    def rejected(self, subject: str, version: Version, message: str) -> Outcome:
        """Return the outcome of a version that is not valid; tell where names are that it lacks."""
        lacking = version.lacking(message)
        firsts = [self.lacking.setdefault(name, subject) for name in lacking]
        because = next((each for each in firsts if each != subject), "")
        text = "; ".join([message, *lacking.values()])
        return Outcome(subject, version, "rejected", message=text, because=because)

    def problem(self, subject: str, message: str) -> None:
        """Add a problem, which keeps all steps from being taken."""
        self.plan.problems.append(Problem(subject, message))
