"""Planning of imports: versions that keep their ids and numbers."""

from __future__ import annotations

from collections.abc import Iterable

from registry.domain.commands import DeleteMode, DeleteVersion, PutMode
from registry.domain.errors import INCOMPATIBLE, RegistryError

from .ordering import Place, ordered
from .planning import Planning
from .steps import Outcome, registration

_IMPORT = "IMPORT"


def import_versions(planning: Planning) -> None:
    """Register versions with their ids, each subject in mode ``IMPORT`` meanwhile."""
    order = ordered(planning.wanted)
    missing = [place for place in order if _is_missing(planning, place)]
    opened = {subject: planning.registry.mode(subject) for subject, _ in missing}
    _check_compatible(planning, missing)
    for subject, mode in opened.items():
        if mode != _IMPORT:
            command = PutMode(subject, _IMPORT, _IMPORT, force=True)
            planning.change("~", f"mode of {subject}: {_IMPORT}, until its versions are there", command)
    for place in order:
        if place in missing:
            planning.add(place, planning.skipped(place) or _imported(planning, place))
        else:
            version = planning.version(place)
            planning.add(place, Outcome(place[0], version, "unchanged", version.number))
    _delete_versions(planning, reversed(order))
    for subject in planning.wanted.versions:
        _close(planning, subject, opened.get(subject))


def _is_missing(planning: Planning, place: Place) -> bool:
    """Return true if the registry lacks a version; another one in its place is a problem."""
    subject, version = place[0], planning.version(place)
    found = planning.registry.version(subject, version.number)
    if found is None:
        return True
    if found.row.schema_id != version.schema_id:
        text = f"version {version.number} has the id {found.row.schema_id} already, not {version.schema_id}"
        planning.problem(subject, f"{text}: register it without its id")
    elif not planning.registry.holds(found, planning.registry.resolved(planning.wanted, place, {})):
        text = f"version {version.number} with the id {version.schema_id} is another schema"
        planning.problem(subject, f"{text}: register this one without its id")
    return found.row.deleted and not version.deleted


def _check_compatible(planning: Planning, missing: Iterable[Place]) -> None:
    """Compare new versions with those that are in use already; an import itself compares nothing.

    A subject in mode ``IMPORT`` is not in use yet: its import was interrupted.
    """
    for place in missing:
        subject, version = place[0], planning.version(place)
        unused = planning.registry.latest(subject) is None
        if version.deleted or unused or planning.registry.mode_in_force(subject) == _IMPORT:
            continue
        resolved = planning.registry.resolved(planning.wanted, place, planning.numbers)
        try:
            result = planning.registry.explain(resolved.request(subject))
        except RegistryError:
            continue  # what it refers to is imported, too
        if result.messages:
            message = INCOMPATIBLE(subject, ", ".join(result.messages)).message
            outcome = Outcome(subject, version, "incompatible", message=message, result=result)
            planning.plan.outcomes.append(outcome)


def _imported(planning: Planning, place: Place) -> Outcome:
    subject, version = place[0], planning.version(place)
    first = planning.registry.latest(subject) is None
    resolved = planning.registry.resolved(planning.wanted, place, planning.numbers)
    command = resolved.request(subject, schema_id=version.schema_id, version=version.number)
    try:
        planning.registry.submit(command)
    except RegistryError as error:
        return Outcome(subject, version, "rejected", message=error.message)
    planning.plan.steps.append(registration(subject, version, command, version.number))
    return Outcome(subject, version, "new" if first else "compatible", version.number)


def _delete_versions(planning: Planning, order: Iterable[Place]) -> None:
    """Delete versions that are soft-deleted where they come from, after what refers to them."""
    for place in order:
        subject, version = place[0], planning.version(place)
        found = planning.registry.version(subject, version.number)
        if version.deleted and found is not None and not found.row.deleted:
            text = f"{subject} version {version.number}, which is deleted in the source"
            planning.change("-", text, DeleteVersion(subject, version.number))


def _close(planning: Planning, subject: str, before: str | None) -> None:
    """Leave mode ``IMPORT``, also if an interrupted import left it behind."""
    wanted = planning.wanted.modes.get(subject, "").upper()
    if planning.registry.mode(subject) != _IMPORT or wanted == _IMPORT:
        return
    if before in (None, _IMPORT):
        planning.change("~", f"mode of {subject}: no longer {_IMPORT}", DeleteMode(subject))
    else:
        planning.change("~", f"mode of {subject}: {before}, as before", PutMode(subject, before, before))
