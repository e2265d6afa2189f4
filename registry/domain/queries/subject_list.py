"""The list of subjects in each of its orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from registry.domain.model import Subject
from registry.domain.rows.view import Skip, View

from . import lists
from .subject_ids import ById, Place
from .subject_order import Prefix

SORTS = ("name", "-name", "id", "-id")


class SubjectList(NamedTuple):
    """The subjects to list; a subject counts as deleted if all its versions are."""

    prefix: str
    deleted: bool = False
    deleted_only: bool = False
    sort: str = SORTS[0]

    @property
    def by_id(self) -> bool:
        """True if the items are places, otherwise subjects."""
        return self.sort.endswith("id")

    def walk(
        self, view: View, after: Subject | Place | None = None, skip: Skip | None = None
    ) -> Iterator[Subject | Place | None]:
        """Walk the items behind ``after``; ``skip``: how many need not be listed."""
        descending = self.sort.startswith("-")
        if self.by_id:
            chosen = ById(Prefix.parse(self.prefix), self.admits, descending)
            return chosen.walk(view, after if isinstance(after, Place) else None)
        return lists.subjects(
            view,
            self.prefix,
            after.subject if isinstance(after, Place) else after,
            skip,
            deleted=self.deleted,
            deleted_only=self.deleted_only,
            descending=descending,
        )

    def admits(self, deleted: bool) -> bool:
        """Return true if a subject is listed that is deleted (or is not)."""
        return self.deleted or self.deleted_only if deleted else not self.deleted_only
