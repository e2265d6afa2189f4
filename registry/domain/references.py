"""References between schemas: what a schema uses, and who uses a version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import entities, rows, versions
from .model import Reference, Subject
from .rows import View
from .schemas import Dependency, InvalidSchema, Unreadable
from .versions import Registered

DEPENDENCIES_MAX = 10_000
"""Schemas that one may use, directly or not: they are looked up at once."""


def resolve(
    view: View, subject: Subject, references: Sequence[Reference], *, deleted: bool
) -> tuple[list[Reference], list[Dependency]]:
    """The references with a number for -1, and everything that they use in turn, dependencies first.

    A subject without context lies in that of the schema that names it. Of several schemas with one name the
    first one reached counts (Confluent 8.x). ``deleted``: soft-deleted versions are seen.
    Raises :class:`InvalidSchema` for what is not there.
    """
    if not references:
        return [], []
    numbered = [
        Reference(each.name, each.subject, _target(view, subject, each, deleted).version)
        for each in references
    ]
    return numbered, _closure(view, subject, numbered, deleted)


def _target(view: View, subject: Subject, reference: Reference, deleted: bool) -> Registered:
    target = Subject.within(subject.context, reference.subject)
    found = versions.named(view, target, reference.version)
    if found is None or (found.row.deleted and not deleted):
        wanted = f'subject "{reference.subject}" and version {reference.version}'
        raise Unreadable(f"No schema reference found for {wanted}")
    return found


def _closure(
    view: View, subject: Subject, references: Sequence[Reference], deleted: bool
) -> list[Dependency]:
    # A stack of our own: chains of references are as long as their users made them.
    seen: set[str] = set()
    closure: list[Dependency] = []
    stack: list[tuple[Iterator[Reference], Subject, Dependency | None]] = [(iter(references), subject, None)]
    while stack:
        pending, user, dependency = stack[-1]
        reference = next((each for each in pending if each.name not in seen), None)
        if reference is None:
            stack.pop()
            if dependency is not None:
                closure.append(dependency)
            continue
        seen.add(reference.name)
        if len(seen) > DEPENDENCIES_MAX:
            raise InvalidSchema(f"The schema uses more than {DEPENDENCIES_MAX} other schemas")
        found = _target(view, user, reference, deleted)
        used = Dependency(reference.name, entities.text(found.row))
        stack.append((iter(entities.references(found.row)), found.subject, used))
    return closure


def referrers(view: View, subject: Subject, version: int, *, deleted: bool = True) -> Iterator[Registered]:
    """The versions that refer to this one; soft-deleted ones only where ``deleted``."""
    prefix = rows.referrer_prefix(subject, version)
    for key, _ in rows.scan(view, prefix):
        found = versions.at(view, rows.VERSION + key[len(prefix) :])
        if found is not None and (deleted or not found.row.deleted):
            yield found


def is_referred_to(view: View, subject: Subject) -> bool:
    """Return whether anything registered refers to a version of a subject."""
    return next(rows.scan(view, rows.scope_key(rows.REFERRER, subject)), None) is not None
