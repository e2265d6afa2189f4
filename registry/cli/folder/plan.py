"""Plan that makes a registry hold what a folder, or another registry, holds."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from registry.domain.commands import DeleteSubject, PutConfig, PutMode, Register
from registry.domain.errors import INCOMPATIBLE, REFERENCE_EXISTS, RegistryError
from registry.domain.model import Subject
from registry.domain.queries.scope import READ_ONLY
from registry.domain.subject_patterns import Pattern

from .contents import Contents, Version
from .importing import Planning, import_versions
from .memory_registry import MemoryRegistry
from .steps import Outcome, Place, Plan, order_versions, registration

# Members of configs that are shown under the names of ``PUT /config``.
_SHOWN_AS: Final = {"compatibilityLevel": "compatibility"}


def plan(
    wanted: Contents,
    present: Contents,
    *,
    prune: Sequence[Pattern] = (),
    keep_ids: bool = False,
    unfinished: Collection[str] = (),
) -> Plan:
    """Return the steps from ``present`` to ``wanted``.

    ``prune``: delete the subjects that these patterns cover and that ``wanted`` lacks.
    ``keep_ids``: import versions with their ids and numbers, and delete those that are deleted.
    ``unfinished``: subjects of which an interrupted import left a part.
    Raises :class:`.contents.FolderError` if references form a cycle.
    """
    registry = MemoryRegistry()
    registry.load(present)
    gone = subjects_to_prune(wanted, present.versions, prune)
    return plan_for(wanted, registry, prune=gone, keep_ids=keep_ids, unfinished=unfinished)


def subjects_to_prune(wanted: Contents, subjects: Iterable[str], owned: Sequence[Pattern]) -> list[str]:
    """Return the subjects that the patterns ``owned`` cover and that ``wanted`` lacks."""
    return [
        subject
        for subject in subjects
        if any(each.covers(Subject.parse(subject)) for each in owned) and not wanted.names(subject)
    ]


def plan_for(
    wanted: Contents,
    registry: MemoryRegistry,
    *,
    prune: Sequence[str] = (),
    keep_ids: bool = False,
    unfinished: Collection[str] = (),
) -> Plan:
    """Return the steps after which ``registry`` holds ``wanted``; it takes them on the way.

    ``prune``: delete these subjects. The rest is as for :func:`plan`.
    """
    planning = Planning(wanted, registry)
    _configure(planning)
    _check_aliases(planning)
    _set_modes(planning, _opening(planning))
    if keep_ids:
        import_versions(planning, unfinished)
    else:
        _register(planning)
    _prune(planning, prune)
    _set_modes(planning, wanted.modes)
    return planning.plan


def _configure(planning: Planning) -> None:
    """Set configs first: they decide what else is accepted."""
    for scope, config in planning.wanted.configs.items():
        before, steps = planning.registry.config(scope), len(planning.plan.steps)
        shown = ", ".join(f"{_SHOWN_AS.get(name, name)} = {_format(value)}" for name, value in config.items())
        text = f"config of {_scope(scope)}: {shown}"
        planning.change("~" if before else "+", text, PutConfig(scope or None, dict(config)))
        if planning.registry.config(scope) == before:
            del planning.plan.steps[steps:]


def _format(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check_aliases(planning: Planning) -> None:
    """Refuse to register under aliases: every registry follows them, so others' subjects would change."""
    for subject, versions in planning.wanted.versions.items():
        alias = _alias(planning, subject)
        if alias and versions:
            text = f"has an alias, so its schemas would be registered under {alias}"
            planning.problem(subject, f"{text}: remove the alias or the schemas")


def _alias(planning: Planning, subject: str) -> str:
    config = planning.registry.config(subject)
    return "" if config is None else config.alias or ""


def _opening(planning: Planning) -> Mapping[str, str]:
    """Return the modes that permit writes where they are not permitted now."""
    return {
        scope: mode
        for scope, mode in planning.wanted.modes.items()
        if mode.upper() not in READ_ONLY and planning.registry.mode_in_force(scope) in READ_ONLY
    }


def _set_modes(planning: Planning, modes: Mapping[str, str]) -> None:
    for scope, given in modes.items():
        before, mode = planning.registry.mode(scope), given.upper()
        if before != mode:
            text = f"mode of {_scope(scope)}: {mode}"
            planning.change("~" if before else "+", text, PutMode(scope or None, mode, mode))


def _scope(scope: str) -> str:
    return scope or "the top level"


def _register(planning: Planning) -> None:
    """Register versions, each compared with those before it."""
    for place in order_versions(planning.wanted):
        version = planning.version(place)
        if not version.deleted:
            planning.add(place, planning.skip_outcome(place) or _plan_registration(planning, place, version))
    for subject, versions in planning.wanted.versions.items():
        number = planning.numbers.get((subject, len(versions) - 1))
        latest = planning.registry.latest(subject)
        if number is not None and latest is not None and latest.version > number:
            planning.plan.notes.append(
                f"{subject}: this schema is version {number}, but {latest.version} is newer; a registry "
                "does not register a schema twice"
            )


def _plan_registration(planning: Planning, place: Place, version: Version) -> Outcome:
    subject, registry = place[0], planning.registry
    command = registry.resolve(planning.wanted, place, planning.numbers).request(subject)
    first, planned_on = registry.latest(subject) is None, registry.state(command)
    try:
        decision = registry.decide(command)
        if decision.entries:
            _note_basis(planning, command)
        result = registry.explain(command) if decision.entries and not first else None
        number: int = registry.submit(command)["version"]
    except RegistryError as error:
        return _refusal(planning, version, command, error)
    if not decision.entries:
        return Outcome(subject, version, "unchanged", number)
    planning.plan.steps.append(registration(subject, version, command, number, planned_on))
    return Outcome(subject, version, "new" if first else "compatible", number, result=result)


def _refusal(planning: Planning, version: Version, command: Register, error: RegistryError) -> Outcome:
    if error.code != INCOMPATIBLE.code:
        return planning.reject(command.subject, version, error.message)
    _note_basis(planning, command)
    result = planning.registry.explain(command)
    return Outcome(command.subject, version, "incompatible", message=error.message, result=result)


def _note_basis(planning: Planning, command: Register) -> None:
    """Say with which versions a schema is compared, if its level is for those in use."""
    if compared := planning.registry.describe_basis(command):
        planning.plan.notes.append(f"{command.subject}: {compared}")


def _prune(planning: Planning, subjects: Sequence[str]) -> None:
    """Delete subjects, those that refer to others first."""
    left = [each for each in sorted(subjects) if planning.registry.latest(each) is not None]
    for subject in left:
        if alias := _alias(planning, subject):
            text = f"has an alias, so {alias} would be deleted instead"
            planning.problem(subject, f"{text}: remove the alias first")
    left = [each for each in left if not _alias(planning, each)]
    while left:
        refused = {each: message for each in left if (message := _plan_deletion(planning, each)) is not None}
        if len(refused) == len(left):
            for subject, message in refused.items():
                planning.problem(subject, message)
            return
        left = list(refused)


def _plan_deletion(planning: Planning, subject: str) -> str | None:
    """Delete a subject; return the reason if something refers to it."""
    try:
        planning.registry.decide(DeleteSubject(subject))
    except RegistryError as error:
        if error.code == REFERENCE_EXISTS.code:
            users = ", ".join(planning.registry.referrers(subject))
            return f"would be deleted, but is referred to by {users}: keep it, or delete those first"
    planning.change("-", f"{subject}, all versions", DeleteSubject(subject))
    return None
