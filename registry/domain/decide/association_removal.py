"""Removal of associations and of the subjects that they own."""

from __future__ import annotations

from registry.domain import errors
from registry.domain.commands import DeleteSubject
from registry.domain.fold.tombstones import tombstones
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.associations import Association

from .association_checks import check_writable, imports
from .deletes import delete_subject
from .draft import Draft


def remove(draft: Draft, found: list[Association], *, cascade: bool) -> None:
    """Remove associations; with ``cascade``, strong ones permanently delete their subjects, too.

    Raises 42205, 40908, 40904, 42206. A subject that is being imported stays, because another registry
    decides which versions it has.
    """
    for each in found:
        check_writable(draft.view, Subject.parse(each.subject))
        if each.is_frozen and not cascade:
            raise errors.ASSOCIATION_FROZEN(each.association_type, each.subject)
    owned = {each.subject for each in found if cascade and each.strong}
    for place, each in enumerate(found, 1):
        draft.add(tombstones(draft.view, each.key))
        # Keys and values may share a subject; it is deleted with the last association.
        last = all(later.subject != each.subject for later in found[place:])
        if last and each.subject in owned and not imports(draft.view, Subject.parse(each.subject)):
            _purge(draft, Subject.parse(each.subject))


def _purge(draft: Draft, subject: Subject) -> None:
    for permanent in (False, True):
        if versions.exists(draft.view, subject, deleted=permanent):
            draft.add(delete_subject(draft.view, DeleteSubject(subject.qualified, permanent)).entries)
