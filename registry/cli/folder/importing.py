"""Plans in progress, and planning of imports: versions that keep their ids and numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from registry.domain.commands import Command, DeleteMode, DeleteVersion, PutMode
from registry.domain.errors import INCOMPATIBLE, RegistryError

from .contents import Contents, Version
from .memory_registry import CONDITIONAL, MemoryRegistry
from .steps import REFUSED, Outcome, Place, Plan, Problem, Sign, Step, order_versions, registration


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
        conditional = isinstance(command, CONDITIONAL)
        planned_on = self.registry.state(command) if conditional else None
        try:
            self.registry.submit(command)
        except RegistryError as error:
            self.problem(getattr(command, "subject", None) or "", f"{shows}: {error.message}")
        else:
            self.plan.steps.append(Step(sign, shows, command, planned_on=planned_on, conditional=conditional))

    def add(self, place: Place, outcome: Outcome) -> None:
        """Add the outcome of a version."""
        self.plan.outcomes.append(outcome)
        if outcome.verdict in REFUSED:
            self.causes[place] = outcome.because or outcome.subject
        else:
            self.numbers[place] = outcome.number

    def skip_outcome(self, place: Place) -> Outcome | None:
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

    def reject(self, subject: str, version: Version, message: str) -> Outcome:
        """Return the outcome of a version that is not valid, with the files of the names that it lacks."""
        lacking = version.lacking(message)
        firsts = [self.lacking.setdefault(name, subject) for name in lacking]
        because = next((each for each in firsts if each != subject), "")
        text = "; ".join([message, *lacking.values()])
        return Outcome(subject, version, "rejected", message=text, because=because)

    def problem(self, subject: str, message: str) -> None:
        """Add a problem, which keeps all steps from being taken."""
        self.plan.problems.append(Problem(subject, message))


_IMPORT = "IMPORT"


def import_versions(planning: Planning, unfinished: Collection[str] = ()) -> None:
    """Register versions with their ids, each subject in mode ``IMPORT`` meanwhile.

    ``unfinished``: subjects of which an interrupted import left a part, which is not in use yet.
    """
    order = order_versions(planning.wanted)
    missing = [place for place in order if _is_missing(planning, place)]
    _check_compatible(planning, missing, unfinished)
    _report_unclear_mode(planning)
    for place in order:
        if place in missing or (place[0] in unfinished and _is_left(planning, place)):
            _open(planning, place[0])
    for place in order:
        if place in missing:
            planning.add(place, planning.skip_outcome(place) or _plan_import(planning, place))
        else:
            version = planning.version(place)
            planning.add(place, Outcome(place[0], version, "unchanged", version.number))
    _delete_versions(planning, reversed(order))
    _close(planning)


def _report_unclear_mode(planning: Planning) -> None:
    """Report subjects that are in mode ``IMPORT`` already: it may be meant, so they stay in it."""
    for subject in planning.wanted.versions:
        mode = planning.wanted.modes.get(subject, _IMPORT)
        if planning.registry.mode(subject) == _IMPORT and mode.upper() == _IMPORT:
            planning.plan.notes.append(
                f"{subject} was in mode {_IMPORT} before, and stays in it; if that is not intended, "
                "set another one with registrar mode"
            )


def _open(planning: Planning, subject: str) -> None:
    """Set the mode ``IMPORT`` of a subject, unless it is in it."""
    if planning.registry.mode_in_force(subject) != _IMPORT:
        planning.plan.former_modes[subject] = planning.registry.mode(subject)
        command = PutMode(subject, _IMPORT, _IMPORT, force=True)
        planning.change("~", f"mode of {subject}: {_IMPORT}, until its versions are there", command)


def _is_missing(planning: Planning, place: Place) -> bool:
    """Return true if the registry lacks a version; another one in its place is a problem."""
    subject, version = place[0], planning.version(place)
    found = planning.registry.version(subject, version.number)
    if found is None:
        return True
    if found.row.schema_id != version.schema_id:
        text = f"version {version.number} has the id {found.row.schema_id} already, not {version.schema_id}"
        planning.problem(subject, f"{text}: register it without its id")
    elif not planning.registry.holds(found, planning.registry.resolve(planning.wanted, place, {})):
        text = f"version {version.number} with the id {version.schema_id} is another schema"
        planning.problem(subject, f"{text}: register this one without its id")
    return found.row.deleted and not version.deleted


def _is_left(planning: Planning, place: Place) -> bool:
    """Return true if a version is still to be deleted."""
    found = planning.registry.version(place[0], planning.version(place).number)
    return planning.version(place).deleted and found is not None and not found.row.deleted


def _check_compatible(planning: Planning, missing: Iterable[Place], unfinished: Collection[str]) -> None:
    """Compare new versions with those that are in use already; an import itself compares nothing.

    A subject in mode ``IMPORT`` is not in use.
    """
    for place in missing:
        subject, version = place[0], planning.version(place)
        unused = subject in unfinished or planning.registry.latest(subject) is None
        if version.deleted or unused or planning.registry.mode_in_force(subject) == _IMPORT:
            continue
        resolved = planning.registry.resolve(planning.wanted, place, planning.numbers)
        try:
            result = planning.registry.explain(resolved.request(subject))
        except RegistryError:
            continue  # what it refers to is imported, too
        if result.messages:
            message = INCOMPATIBLE(subject, ", ".join(result.messages)).message
            outcome = Outcome(subject, version, "incompatible", message=message, result=result)
            planning.plan.outcomes.append(outcome)


def _plan_import(planning: Planning, place: Place) -> Outcome:
    subject, version = place[0], planning.version(place)
    first = planning.registry.latest(subject) is None
    resolved = planning.registry.resolve(planning.wanted, place, planning.numbers)
    command = resolved.request(subject, schema_id=version.schema_id, version=version.number)
    try:
        planning.registry.submit(command)
    except RegistryError as error:
        return planning.reject(subject, version, error.message)
    planning.plan.steps.append(registration(subject, version, command, version.number))
    return Outcome(subject, version, "new" if first else "compatible", version.number)


def _delete_versions(planning: Planning, order: Iterable[Place]) -> None:
    """Delete versions that are soft-deleted where they come from, after what refers to them."""
    for place in order:
        subject, version = place[0], planning.version(place)
        if _is_left(planning, place):
            text = f"{subject} version {version.number}, which is deleted in the source"
            planning.change("-", text, DeleteVersion(subject, version.number))


def _close(planning: Planning) -> None:
    """Leave the mode ``IMPORT``, unless it is wanted."""
    for subject, former in planning.plan.former_modes.items():
        if planning.wanted.modes.get(subject, "").upper() == _IMPORT:
            continue
        if former is None:
            planning.change("~", f"mode of {subject}: no longer {_IMPORT}", DeleteMode(subject))
        else:
            planning.change("~", f"mode of {subject}: {former}, as before", PutMode(subject, former, former))
