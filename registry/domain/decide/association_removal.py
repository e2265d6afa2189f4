"""Removing associations, and what they own."""

from __future__ import annotations

from registry.domain import errors, versions
from registry.domain.associations import Association
from registry.domain.commands import DeleteSubject
from registry.domain.model import Subject
from registry.domain.tombstones import tombstones

from .association_checks import imports
from .decision import check_writable
from .deletes import delete_subject
from .draft import Draft


def remove(draft: Draft, found: list[Association], about: str, *, cascade: bool) -> None:
    """Remove associations; where it cascades, strong ones take their subjects along, for good.

    ``about``: what the client asked for. Raises 40410, 42205, 40908, 42206. A subject that is being imported
    stays: its versions come and go with those of another registry.
    """
    if not found:
        raise errors.ASSOCIATION_NOT_FOUND(about)
    for each in found:
        check_writable(draft.view, Subject.parse(each.subject), each.subject)
        if each.is_frozen and not cascade:
            raise errors.ASSOCIATION_FROZEN(each.association_type, each.subject)
    for each in found:
        draft.add(tombstones(draft.view, each.key))
    for each in found:
        if cascade and each.strong and not imports(draft.view, Subject.parse(each.subject)):
            _purge(draft, Subject.parse(each.subject))


def _purge(draft: Draft, subject: Subject) -> None:
    for permanent in (False, True):
        if versions.exists(draft.view, subject, deleted=permanent):
            draft.add(delete_subject(draft.view, DeleteSubject(subject.qualified, permanent)).entries)
