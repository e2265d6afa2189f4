"""The API's lists as walks that can start after any item, in the order in which clients see them.

A walk (see :mod:`.walks`) keeps no position in the view, only keys. So it may be resumed on another view,
and items that do not change in between are listed exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from registry.domain.model import Subject
from registry.domain.rows import layout, version_row
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import Counts, Skip, View, scan

from . import entities, scope, subject_order, versions
from .associations import Association, Filter
from .subject_order import Prefix, SubjectEntry
from .subject_order_back import subjects_back
from .versions import Registered
from .walks import Search, Skips, held_and_sorted, in_order, scan_skipping

_NO_FILTER = Filter()


def subjects(
    view: View,
    prefix: str,
    after: Subject | None = None,
    skip: Skip | None = None,
    *,
    deleted: bool = False,
    deleted_only: bool = False,
    descending: bool = False,
) -> Iterator[Subject | None]:
    """Walk the subjects under a prefix by name; a subject counts as deleted if all its versions are.

    ``skip``: how many items need not be listed.
    """

    def items(counts: Counts) -> int:
        listed = counts.live_subjects if not (deleted or deleted_only) else counts.subjects
        return listed - counts.live_subjects if deleted_only else listed

    skips = None if skip is None else Skips(skip, items)
    walk = subjects_back if descending else subject_order.subjects
    for found in walk(view, Prefix.parse(prefix), after, skips):
        if found is None:
            yield None
            continue
        subject, row = found
        live = True if not version_row.is_deleted(row) else (yield from versions.is_live(view, subject))
        shown = live is not None and (not deleted_only if live else deleted or deleted_only)
        yield subject if shown else None


class Listed(NamedTuple):
    """A version in the list of schemas."""

    found: Registered
    aliases: list[str]
    associations: list[Association]


class Schemas(NamedTuple):
    """The filter of the list of schemas; ``latest_only`` applies before ``rule_type``."""

    prefix: str
    deleted: bool = False
    latest_only: bool = False
    rule_type: str = ""
    with_aliases: bool = False
    wanted: Filter = _NO_FILTER

    def walk(
        self, view: View, after: tuple[Subject, int] | None = None, skip: Skip | None = None
    ) -> Iterator[Listed | None]:
        """Walk the versions by subject and version; ``skip``: how many items need not be listed."""
        aliases: dict[Subject, list[str]] = {}
        if self.with_aliases:
            for pair in _aliases_under(view, self.prefix):
                if pair is not None:
                    aliases.setdefault(pair[1], []).append(pair[0])
                yield None
        last = None if after is None else after[0]
        filtered = self.rule_type or self.with_aliases or self.wanted.has_criteria
        skips = None if skip is None or filtered else Skips(skip, self._items)
        if after is not None and not self.latest_only:
            yield from self._of_subject(view, after[0], aliases, after[1], skips)
        walk = subject_order.subjects(view, Prefix.parse(self.prefix), last, skips)
        for subject in _with_targets(walk, aliases, last):
            if subject is None:
                yield None
            else:
                yield from self._of_subject(view, subject, aliases, None, skips)

    def _items(self, counts: Counts) -> int:
        if self.latest_only:
            return counts.subjects if self.deleted else counts.live_subjects
        return counts.versions if self.deleted else counts.live_versions

    def _of_subject(
        self,
        view: View,
        subject: Subject,
        aliases: dict[Subject, list[str]],
        after: int | None,
        skips: Skips | None,
    ) -> Iterator[Listed | None]:
        names = sorted(aliases.get(subject, ()))
        chosen: list[Association] | None = None
        for each in (
            _latest(view, subject, deleted=self.deleted)
            if self.latest_only
            else _versions(view, subject, after, skips, deleted=self.deleted)
        ):
            if each is None or (self.rule_type and not _has_rule(each, self.rule_type)):
                yield None
                continue
            if chosen is None:
                chosen = self.wanted.of_subject(view, subject)
                if chosen is None:
                    yield None
                    return
            yield Listed(each, names, chosen)


def _latest(view: View, subject: Subject, *, deleted: bool) -> Iterator[Registered | None]:
    for each in versions.walk(view, subject, deleted=deleted, newest_first=True):
        yield each
        if each is not None:
            return


def _versions(
    view: View, subject: Subject, after: int | None, skips: Skips | None, *, deleted: bool
) -> Iterator[Registered | None]:
    prefix = layout.scope_key(layout.VERSION, subject)
    start = prefix[:-1] if after is None else prefix + layout.number(after) + b"\0"
    for found in scan_skipping(view, prefix, start, skips):
        if found is None or (version_row.is_deleted(found[1]) and not deleted):
            yield None
            continue
        row = VersionRow.unpack(found[1])
        shown = not versions.is_cleared(view, subject, row)
        yield Registered(subject, layout.unnumber(found[0][-4:]), row) if shown else None


def _has_rule(registered: Registered, rule_type: str) -> bool:
    rules = entities.rule_set(registered.row)
    groups = (rules.migration_rules, rules.domain_rules, rules.encoding_rules) if rules else ()
    return any(rule.type == rule_type for group in groups for rule in group or ())


def _aliases_under(view: View, text: str) -> Iterator[tuple[str, Subject] | None]:
    """Walk the aliases under a prefix with their target subjects."""
    prefix = Prefix.parse(text)
    start = layout.CONFIG
    if prefix.whole:
        start = layout.context_key(layout.CONFIG, prefix.context) + layout.part_prefix(prefix.name)
    for key, value in scan(view, start):
        alias = layout.scope_of(key, value)
        target = scope.resolve_alias(view, alias) if prefix.admits(alias) else alias
        yield None if target == alias else (alias.qualified, target)


def _with_targets(
    walk: Iterator[SubjectEntry | None], targets: Iterable[Subject], after: Subject | None
) -> Iterator[Subject | None]:
    """Merge more subjects into a walk over subjects, without duplicates."""
    rank = subject_order.rank
    begin = None if after is None else rank(after)
    coming = (each if begin is None or rank(each) > begin else None for each in targets)
    waiting = held_and_sorted(coming, rank)
    target: Subject | None = None
    for target in waiting:
        if target is not None:
            break
        yield None
    for found in walk:
        if found is None:
            yield None
            continue
        subject = found[0]
        while target is not None and rank(target) < rank(subject):
            yield target
            target = next(waiting, None)
        if target == subject:
            target = next(waiting, None)
        yield subject
    if target is not None:
        yield target
        yield from waiting


def version_numbers(
    view: View,
    subject: Subject,
    after: int | None = None,
    skip: Skip | None = None,
    *,
    deleted: bool = False,
    deleted_only: bool = False,
    deleted_as_negative: bool = False,
) -> Iterator[int | None]:
    """Walk a subject's versions, ascending; with ``deleted_as_negative``, soft-deleted ones are negative.

    That option overrides the other two. ``skip``: how many items need not be listed.
    """
    seen = deleted or deleted_only or deleted_as_negative

    def items(counts: Counts) -> int:
        listed = counts.versions if seen else counts.live_versions
        return listed - counts.live_versions if deleted_only and not deleted_as_negative else listed

    skips = None if skip is None else Skips(skip, items)
    for each in _versions(view, subject, after, skips, deleted=seen):
        if each is None or (deleted_only and not deleted_as_negative and not each.row.deleted):
            yield None
        else:
            yield -each.version if deleted_as_negative and each.row.deleted else each.version


# An offset, a name and a version.
PLACE_BYTES_MAX = 8 + layout.PART_MAX + 1 + 4


class PlacedVersion(NamedTuple):
    """A version with an id, and its position among all versions with that id."""

    place: bytes
    found: Registered


def versions_of_id(
    view: View,
    context: str,
    schema_id: int,
    after: bytes = b"",
    skip: Skip | None = None,
    *,
    deleted: bool = False,
) -> Iterator[PlacedVersion | None]:
    """Walk the subjects of an id in the order of their newest records, each with its version recorded last.

    ``after``: the position after which to start. ``skip``: how many items need not be listed.
    """

    def items(counts: Counts) -> int:
        return counts.versions if deleted else counts.live_versions

    prefix = layout.id_prefix(context, schema_id)
    skips = None if skip is None else Skips(skip, items)
    for row in scan_skipping(view, prefix, prefix + after + b"\0" if after else prefix, skips):
        found = None if row is None else (yield from held_by(view, row[0], prefix))
        if row is None or found is None or (found.row.deleted and not deleted):
            yield None
        else:
            yield PlacedVersion(row[0][len(prefix) :], found)


def held_by(view: View, key: bytes, prefix: bytes) -> Search[Registered | None]:
    """Search for the version to which an id row points, None if its subject got the id again later.

    ``prefix``: of the id's rows.
    """
    found = versions.at(view, layout.version_key_of_id(key, prefix))
    if found is None:
        return None
    subject, version, row = found
    for other_key, value in scan(view, layout.scope_key(layout.VERSION, subject)):
        if layout.unnumber(other_key[-4:]) != version:
            later = version_row.id_of(value) == row.schema_id and version_row.offset_of(value) > row.offset
            if later and not versions.is_cleared(view, subject, VersionRow.unpack(value)):
                return None
            yield
    return found


def subjects_of_id(view: View, context: str, schema_id: int) -> Iterator[str | None]:
    """Walk the sorted names of an id's subjects."""
    found = versions_of_id(view, context, schema_id)
    return held_and_sorted(each.found.subject.qualified if each else None for each in found)


def referrer_ids(
    view: View,
    subject: Subject,
    version: int,
    after: tuple[str, int] | None = None,
    *,
    deleted: bool = False,
) -> Iterator[tuple[str, int] | None]:
    """Walk the context and id of each schema that refers to a version, ordered by context and id."""
    prefix = layout.referrer_prefix(subject, version)

    def using() -> Iterator[tuple[str, int] | None]:
        for key, _ in scan(view, prefix):
            found = versions.at(view, layout.VERSION + key[len(prefix) :])
            shown = found is not None and (deleted or not found.row.deleted)
            yield (found.subject.context, found.row.schema_id) if found is not None and shown else None

    return in_order(using, lambda each: each, after)
