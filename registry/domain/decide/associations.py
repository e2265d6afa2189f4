"""Checks that protect subjects with associations from other commands."""

from __future__ import annotations

from collections.abc import Sequence

from registry.domain import errors
from registry.domain.model import Reference, Subject
from registry.domain.queries import versions
from registry.domain.queries.associations import some_of_subject
from registry.domain.rows.view import View


def check_not_strong(view: View, subject: Subject, references: Sequence[Reference]) -> None:
    """Refuse references to subjects that a resource owns (42205)."""
    for each in references:
        target = Subject.within(subject.context, each.subject)
        if any(found.strong for found in some_of_subject(view, target)):
            refusal = f"Subject '{target.qualified}' has a strong association and cannot be referenced"
            raise errors.NOT_PERMITTED(refusal)


def check_none(view: View, subject: Subject) -> None:
    """Refuse to delete a subject that has associations (40904)."""
    if some_of_subject(view, subject):
        raise errors.ASSOCIATION_EXISTS(subject.qualified)


def check_stays_active(view: View, subject: Subject, version: int) -> None:
    """Refuse to delete the last active version of a subject that has associations (40907).

    Confluent 8.x intends the same, but answers 500.
    """
    if not some_of_subject(view, subject):
        return
    if all(each.version == version for each in versions.versions(view, subject)):
        raise errors.NO_ACTIVE_VERSION(subject.qualified)
