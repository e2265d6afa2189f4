"""The list of subjects in each of its orders, and the details that a table shows of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import orjson

from registry.domain.model import Subject
from registry.domain.rows import layout, version_row
from registry.domain.rows.view import Skip, View, scan

from . import entities, lists, scope, versions
from .candidates import Candidates, CandidatesView, Owners, with_level, with_mode
from .scope import Defaults
from .subject_ids import ById, Place
from .subject_order import Prefix
from .versions import Registered
from .walks import Search

_TEXT = len(b',"schema":""')


class SubjectDetails(NamedTuple):
    """A subject as a table shows it."""

    subject: Subject
    latest: Registered  # the newest version; soft-deleted only if all are
    live: int  # number of versions that are not soft-deleted
    deleted: int  # number of soft-deleted versions
    level: str  # the compatibility level in force
    mode: str  # the mode in force
    alias: str | None  # from the subject's own config
    associations: int | None  # None: not known, as of the past

    def print_json(self) -> bytes:
        """Return the JSON object; ``size`` is the length of the latest version's text as JSON, in bytes."""
        row = self.latest.row
        more = orjson.dumps(
            {
                "versions": self.live,
                "deletedVersions": self.deleted,
                "size": max(len(row.schema) - _TEXT, 0),
                "references": len(entities.references(row)),
                "compatibilityLevel": self.level,
                "mode": self.mode,
                **({} if self.associations is None else {"associations": self.associations}),
                **({"alias": self.alias} if self.alias else {}),
            }
        )
        return b"".join((row.head, b',"id":%d' % row.schema_id, row.kind, row.tail[:-1], b",", more[1:]))


class Details(NamedTuple):
    """An item of the list: a subject, or its place among ids, and its details unless it is skipped."""

    item: Subject | Place
    found: SubjectDetails | None


class Filter(NamedTuple):
    """The subjects to show; empty texts admit all, and so do no names and no owners."""

    subjects: SubjectList
    schema_type: str = ""
    level: str = ""
    mode: str = ""
    named: tuple[Subject, ...] = ()  # only these, in this order
    owners: Owners | None = None  # only these, as they are in keys

    def walk(
        self, view: View, defaults: Defaults, after: Subject | Place | None = None, skip: Skip | None = None
    ) -> Iterator[Subject | Place | None]:
        """Walk the subjects in the order of the list; ``skip``: how many items need not be listed."""
        if self.owners is None and not (self.level or self.mode or self.schema_type or self.named):
            return self.subjects.walk(view, after, skip)
        return self._walk_admitted(view, defaults, after)

    def _walk_admitted(
        self, view: View, defaults: Defaults, after: Subject | Place | None
    ) -> Iterator[Subject | Place | None]:
        candidates = self._candidates(view, defaults)
        walk: Iterator[Subject | Place | None] = (
            self._given_subjects(after)
            if self.named
            else self.subjects.walk(CandidatesView(view, candidates) if candidates else view, after)
        )
        for item in walk:
            admitted = item is not None and (yield from self._admits(view, _subject_of(item), defaults))
            yield item if admitted else None

    def walk_details(
        self, view: View, defaults: Defaults, after: Subject | Place | None = None, skip: Skip | None = None
    ) -> Iterator[Details | None]:
        """Walk the same subjects with their details; those that ``skip`` skips come without."""
        for item in self.walk(view, defaults, after, skip):
            if item is None:
                yield None
            elif skip is not None and skip.left:
                yield Details(item, None)
            else:
                details = yield from find_details(view, _subject_of(item), defaults)
                yield None if details is None else Details(item, details)

    def _candidates(self, view: View, defaults: Defaults) -> list[Candidates]:
        found: list[Candidates] = [] if self.owners is None else [self.owners]
        if self.level:
            found.append(with_level(view, self.level, defaults))
        if self.mode:
            found.append(with_mode(view, self.mode))
        return found

    def _given_subjects(self, after: Subject | Place | None) -> Iterator[Subject]:
        prefix = Prefix.parse(self.subjects.prefix)
        known = isinstance(after, Subject) and after in self.named
        rest = self.named[self.named.index(after) + 1 :] if known else self.named
        return (subject for subject in rest if prefix.admits(subject))

    def _admits(self, view: View, subject: Subject, defaults: Defaults) -> Search[bool]:
        if self.owners is not None and layout.scope_key(layout.VERSION, subject)[1:] not in self.owners:
            return False
        if self.level and self.level != scope.config_in_scope(view, subject, defaults).compatibility_level:
            return False
        if self.mode and self.mode != scope.mode_in_scope(view, subject):
            return False
        if not (self.schema_type or self.named):
            return True
        latest = yield from versions.find_latest(view, subject)
        return (
            latest is not None
            and self.subjects.admits(latest.row.deleted)
            and self.schema_type in ("", entities.schema_type(latest.row))
        )


def _subject_of(item: Subject | Place) -> Subject:
    return item.subject if isinstance(item, Place) else item


def find_details(
    view: View, subject: Subject, defaults: Defaults, *, past: bool = False
) -> Search[SubjectDetails | None]:
    """Search for what a table shows of a subject; ``None`` if it has no version.

    ``past``: the rows are of a past moment, without associations.
    """
    latest = yield from versions.find_latest(view, subject)
    if latest is None:
        return None
    live, deleted = yield from count(view, subject)
    config = scope.config_in_scope(view, subject, defaults)
    associations = None if past else (yield from _count_associations(view, subject))
    return SubjectDetails(
        subject,
        latest,
        live,
        deleted,
        config.compatibility_level or defaults.compatibility,
        scope.mode_in_scope(view, subject),
        (scope.stored_config(view, subject) or scope.Config()).alias,
        associations,
    )


def _count_associations(view: View, subject: Subject) -> Search[int]:
    found = 0
    for _ in scan(view, layout.scope_key(layout.ASSOCIATION, subject)):
        found += 1
        yield
    return found


def count(view: View, subject: Subject) -> Search[tuple[int, int]]:
    """Search for the numbers of a subject's live and soft-deleted versions, by block where it has many."""
    prefix = layout.scope_key(layout.VERSION, subject)
    end = layout.after(prefix)
    live = deleted = 0
    start = examined = prefix[:-1]  # a block of the subject begins there
    row = view.seek(start)
    while row is not None and row[0].startswith(prefix):
        key, value = row
        block = view.block(key) if key >= examined else None
        if block is not None and start <= block.begin and block.end <= end:
            live += block.counts.live_versions
            deleted += block.counts.versions - block.counts.live_versions
            start = block.end
        else:
            examined = key if block is None else block.end
            if not version_row.is_deleted(value):
                live += 1
            elif versions.get(view, subject, layout.unnumber(key[-4:])) is not None:
                deleted += 1
            start = key + b"\0"
        yield
        row = view.seek(start)
    return live, deleted


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
            if isinstance(view, CandidatesView):
                chosen = chosen._replace(restricts=view.restricts)
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
