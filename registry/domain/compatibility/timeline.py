"""The versions of a subject in their order, each with what it changes of the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from registry.domain.lookup.metadata import property_of
from registry.domain.model import Subject
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source, Succession
from registry.domain.parsing.stored import source_of
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import Config
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.view import View
from registry.domain.schemas import FORMATS, STRICT, InvalidSchema

from .results import READERS

# Characters of a page: its schemas, what they refer to, metadata and rules. One version may have more.
CHARACTERS_MAX: Final = 2 * 1024 * 1024
UNKNOWN: Final = Succession(None, (), None)
_TOO_LONG: Final = "The comparison of the versions takes too long; ask for fewer with limit"


class TimelineVersion(NamedTuple):
    """A version as a page of a timeline reads it."""

    found: Registered
    # ``None``: what it refers to cannot be read, or its type is not served.
    source: Source | None


@dataclass(slots=True)
class TimelinePage:
    """Versions in descending order."""

    versions: list[TimelineVersion] = field(default_factory=list)
    # The first one below the page; ``None``: there is none.
    following: TimelineVersion | None = None

    def pairs(self) -> list[tuple[TimelineVersion, TimelineVersion | None]]:
        """Return each version with the one below it."""
        return list(zip(self.versions, [*self.versions[1:], self.following], strict=False))


def find_page(
    view: View, subject: Subject, below: int | None, limit: int, *, deleted: bool, strict: bool
) -> Search[TimelinePage]:
    """Search for at most ``limit`` versions ``below`` a number; fewer if their schemas are long.

    ``deleted``: soft-deleted ones, too. ``strict`` as for :func:`.stored.resolve`.
    """
    page, characters = TimelinePage(), 0
    for each in versions.walk(view, subject, deleted=deleted, newest_first=True, below=below):
        yield
        if each is None:
            continue
        read = _read(view, each, strict=strict)
        row = each.row
        characters += len(row.schema) if read.source is None else read.source.characters
        characters += len(row.metadata) + len(row.rules)
        if page.versions and (len(page.versions) == limit or characters > CHARACTERS_MAX):
            page.following = read
            break
        page.versions.append(read)
    return page


def _read(view: View, found: Registered, *, strict: bool) -> TimelineVersion:
    try:
        return TimelineVersion(found, source_of(view, found, strict=strict))
    except InvalidSchema:
        return TimelineVersion(found, None)


def find_successions(page: TimelinePage, config: Config) -> Querying[list[Succession]]:
    """Return what each version of a page changes of the next one in it; ``config``: that in effect.

    Raises 422 if that takes too long.
    """
    steps = [_succession(new, old, config) for new, old in page.pairs()]
    return (yield from querying.together(steps, _TOO_LONG))


def _succession(new: TimelineVersion, old: TimelineVersion | None, config: Config) -> Querying[Succession]:
    if old is None:
        return (yield from _count_fields(new))
    readers: Sequence[str] = READERS[config.compatibility_level or "NONE"]
    if not _are_compared(new.found, old.found, config):
        readers = ()
    if _type_of(old) != _type_of(new):
        found = yield from _count_fields(new)
        return Succession(None, found.tags, False if readers else None)
    if readers and new.source is not None and old.source is not None:
        policy = config.compatibility_policy or STRICT
        with suppress(InvalidSchema):  # one of them is no schema any more
            return (yield from querying.succession(new.source, old.source, readers, policy))
    return (yield from _count_fields(new, old))


def _count_fields(new: TimelineVersion, old: TimelineVersion | None = None) -> Querying[Succession]:
    """Return what the texts alone say, whatever became of the schemas that they refer to."""
    if _type_of(new) not in FORMATS:
        return UNKNOWN
    return (yield from querying.succession(_text_of(new), old and _text_of(old), (), STRICT))


def _text_of(version: TimelineVersion) -> Source:
    return Source(_type_of(version), entities.text(version.found.row))


def _type_of(version: TimelineVersion) -> str:
    return entities.schema_type(version.found.row)


def _are_compared(new: Registered, old: Registered, config: Config) -> bool:
    """Return false for versions of different compatibility groups."""
    group = config.compatibility_group
    if group is None:
        return True
    one, other = (property_of(entities.metadata(each.row), group) for each in (new, old))
    return one == other
