"""The versions that the data needs, as found by the newest census: directly, or by references.

A version is *unused* only if a complete census says so that began after the version was registered; without
one, what no source holds is *unknown*. A message names a version by its id or guid, in the context of its
topic; all versions with that id or guid in the context count as used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import chain, islice
from typing import Any, NamedTuple

from registry.domain.log_format import usage
from registry.domain.log_format.usage import Census, SourceUse, Usage, Use
from registry.domain.model import Subject
from registry.domain.parsing.stored import referrers
from registry.domain.queries import entities, versions
from registry.domain.queries.associations import ASSOCIATION_TYPES
from registry.domain.queries.scope import Config, Defaults
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search, first
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .metadata import property_of

# Referrers that are examined for one version. Beyond, it counts as used: nobody may find out by deleting it.
REFERRERS_MAX = 10_000
# The same for all versions of a subject that a schema is compared with.
EXAMINED_MAX = 50_000
# Versions whose uses are summed up for a subject, the newest, and about how many uses.
SUMMED_VERSIONS_MAX, SUMMED_USES_MAX = 1_000, 10_000
# Versions that a text names.
_SHOWN = 50
_DAY_MS = 86_400_000


class UsageState(StrEnum):
    """The knowledge about a version's messages."""

    USED = "used"
    UNUSED = "unused"
    UNKNOWN = "unknown"


class VersionUsage(NamedTuple):
    """A version, the messages that name it, and the versions in use that refer to it."""

    found: Registered
    uses: list[SourceUse]
    referrers: list[Registered]
    # False: it has more referrers than were examined.
    complete: bool = True
    # Number of referrers that were examined.
    examined: int = 0

    @property
    def is_used(self) -> bool:
        """True if the data needs the version, or if that cannot be ruled out."""
        return bool(self.uses or self.referrers or not self.complete)

    def state(self, census: Census | None) -> UsageState:
        """Return what ``census``, the newest one, says of the version."""
        if self.is_used:
            return UsageState.USED
        counted = census is not None and census.complete and census.started > self.found.row.ts
        return UsageState.UNUSED if counted else UsageState.UNKNOWN


def direct_uses(view: View, found: Registered) -> list[SourceUse]:
    """Return the uses of a version's id and guid in its context."""
    row = found.row
    return list(usage.uses_of(view, found.subject.context, (row.schema_id, row.md5)))


class SubjectUses(NamedTuple):
    """The uses of a subject's versions by their sources."""

    by_source: dict[str, list[Use]]
    # False: there are more versions or uses than were examined.
    complete: bool


def find_subject_uses(view: View, subject: Subject) -> Search[SubjectUses]:
    """Search for the uses of the newest versions, soft-deleted ones included, each use counted once."""
    by_source: dict[str, list[Use]] = {}
    seen, uses = set[int | bytes](), 0
    for number, each in enumerate(versions.walk(view, subject, deleted=True, newest_first=True)):
        yield
        if number == SUMMED_VERSIONS_MAX or uses >= SUMMED_USES_MAX:
            return SubjectUses(by_source, complete=False)
        names = () if each is None else (each.row.schema_id, each.row.md5)
        new = [name for name in names if name not in seen]
        seen.update(new)
        for found in usage.uses_of(view, subject.context, new):
            yield
            by_source.setdefault(found.source, []).append(found.use)
            uses += 1
    return SubjectUses(by_source, complete=uses < SUMMED_USES_MAX)


def find_usage(view: View, found: Registered, most: int = REFERRERS_MAX) -> Search[VersionUsage]:
    """Search for what the data needs a version for; soft-deleted referrers count, ``most`` of them."""
    through: list[Registered] = []
    seen, waiting = {(found.subject, found.version)}, deque([found])
    while waiting:
        user = waiting.popleft()
        for each in referrers(view, user.subject, user.version):
            yield
            place = each.subject, each.version
            if place in seen:
                continue
            if len(seen) > most:
                return VersionUsage(found, direct_uses(view, found), through, False, len(seen))
            seen.add(place)
            waiting.append(each)
            if direct_uses(view, each):
                through.append(each)
    return VersionUsage(found, direct_uses(view, found), through, examined=len(seen) - 1)


def find_needed(
    view: View, subject: Subject, census: Census, group: str | None = None
) -> Search[list[Registered]]:
    """Search for what :func:`needed_versions` yields."""
    found = []
    for each in _walk_needed(view, subject, census, group):
        yield
        if each is not None:
            found.append(each)
    return found


def needed_versions(
    view: View,
    subject: Subject,
    census: Census,
    group: str | None = None,
    leave_out: Callable[[bytes], bool] | None = None,
) -> Iterator[Registered]:
    """Yield the latest version of a subject and those that ``census`` does not find unused, newest first.

    Soft-deleted ones only if they are used: their messages must still be read. ``group``: the property by
    whose values versions are compared, each with a latest version of its own. ``leave_out``: for packed
    version rows, as for :func:`.versions.versions`.
    """
    return (each for each in _walk_needed(view, subject, census, group, leave_out) if each is not None)


def _walk_needed(
    view: View,
    subject: Subject,
    census: Census,
    group: str | None,
    leave_out: Callable[[bytes], bool] | None = None,
) -> Iterator[Registered | None]:
    latest = yield from first(versions.walk(view, subject, newest_first=True))
    latest_of, left = set[str | None](), EXAMINED_MAX
    if group is not None:
        leave_out = None  # a version that is left out may be the latest of its group
    for each in versions.walk(view, subject, deleted=True, newest_first=True, leave_out=leave_out):
        yield None
        if each is None:
            continue
        if group is None:
            is_latest = latest is not None and each.version == latest.version
        else:
            value = property_of(entities.metadata(each.row), group)
            is_latest = not each.row.deleted and value not in latest_of
            latest_of |= {value} if is_latest else set()
        # Most versions in use are named by messages; only for others are referrers searched.
        if is_latest or direct_uses(view, each):
            yield each
            continue
        found = yield from find_usage(view, each, min(left, REFERRERS_MAX))
        left -= min(left, found.examined)
        state = found.state(census)
        if state is UsageState.USED or (state is UsageState.UNKNOWN and not each.row.deleted):
            yield each


class Basis(NamedTuple):
    """The versions that a schema is compared with, at a level for those in use."""

    # None: with all of them.
    census: Census | None
    # Why not by a census; empty if by one.
    reason: str = ""


def basis_of(view: View, config: Config, defaults: Defaults) -> Basis | None:
    """Return the basis for a config in force; ``None`` if its level is none for versions in use.

    Without a complete census that is young enough, all versions count.
    """
    level = config.compatibility_level or defaults.compatibility
    if not (config.compatibility_used and level.endswith("_TRANSITIVE")):
        return None
    census = usage.census(view)
    if census is None:
        return Basis(None, "no census has been published")
    if not census.complete:
        return Basis(None, f"the newest census, {census.id}, is not complete")
    if (age := defaults.now - census.ended) > defaults.census_age_max_ms:
        return Basis(None, f"the newest census, {census.id}, ended {age / _DAY_MS:.1f} days ago")
    return Basis(census)


def describe_basis(basis: Basis, compared: Iterable[Registered]) -> str:
    """Return in words which versions a schema was compared with, and why."""
    if basis.census is None:
        return f"Compared with all versions: {basis.reason}."
    numbers = [str(each.version) for each in islice(compared, _SHOWN + 1)]
    more = ", …" if len(numbers) > _SHOWN else ""
    return (
        f"Compared with the versions in use or the latest: {', '.join(numbers[:_SHOWN])}{more}; "
        f"the census {basis.census.id} found no messages of others."
    )


def deleted_at(view: View, found: Registered) -> int:
    """Return when a soft-deleted version was deleted, in ms since the epoch, by the clock of the primary.

    :data:`~.layout.UNKNOWN_TIME` if the row of the mark is of a former release.
    """
    if found.row.own_deleted:
        return found.row.ts
    mark = view.get(layout.scope_key(layout.DELETE_MARK, found.subject))
    return layout.UNKNOWN_TIME if mark is None else layout.mark_time(mark)


class Stranger(NamedTuple):
    """Messages whose schema the registry cannot name, or a topic that no subject is named after."""

    source: Usage
    # Number of the use in the source, from 1; 0 for the topic itself.
    place: int
    # ``unknown``: nobody knows the id or guid; ``unframed``: the bytes name none; ``topic``: the topic has
    # neither a subject of its name nor an association.
    problem: str
    use: Use | None


def walk_unexplained(view: View, after: tuple[str, int] | None = None) -> Iterator[Stranger | None]:
    """Walk what no subject explains, behind the given place of a source's name and a number."""
    name, begin = after or ("", -1)
    first = usage.source(view, name) if name else None
    for source in chain([first] if first else (), usage.sources(view, name)):
        for place, use in enumerate([None, *source.uses]):
            problem = _problem(view, source, use) if place > begin else ""
            yield Stranger(source, place, problem, use) if problem else None
        begin = -1


def _problem(view: View, source: Usage, use: Use | None) -> str:
    if use is None:
        return "" if "#" in source.source or _has_subject(view, source) else "topic"
    if use.reference is None:
        return "unframed" if use.framing == "none" else ""
    return "" if is_known(view, source.context, use.reference) else "unknown"


def is_known(view: View, context: str, reference: int | bytes) -> bool:
    """Return true if a version has this id, or the guid in 16 bytes, in a context."""
    if isinstance(reference, int):
        return versions.by_id(view, context, reference) is not None
    return next(versions.of_content(view, context, reference), None) is not None


def _has_subject(view: View, source: Usage) -> bool:
    named = (Subject(source.context, f"{source.source}-{side}") for side in ASSOCIATION_TYPES)
    if any(versions.exists(view, each, deleted=True) for each in named):
        return True
    return next(scan(view, layout.resource_name_prefix(source.source)), None) is not None


def as_members(each: SourceUse) -> dict[str, Any]:
    """Return what clients see of a use."""
    use = each.use
    return {"source": each.source, **use_members(use)}


def use_members(use: Use) -> dict[str, Any]:
    """Return what clients see of a use, without its source; times are ms since the epoch, -1: none."""
    return {
        "side": use.side, "framing": use.framing, "schema": use.schema, "messages": use.messages,
        "bytes": use.size, "first": use.first, "last": use.last, "exact": use.exact,
    }  # fmt: skip


def has_topic(view: View, subject: Subject) -> bool:
    """Return true if the census found a topic that a subject is named after."""
    for side in ASSOCIATION_TYPES:
        topic = subject.name.removesuffix(f"-{side}")
        if topic != subject.name and (found := usage.source(view, topic)) is not None:
            return found.context == subject.context
    return False
