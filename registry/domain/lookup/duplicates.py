"""Schemas that are equal after normalization, and ids with more than one content.

Equal schemas are listed for clean-up, and found on registration.

The normal form of a schema is the guid that it would have if it had been registered with ``normalize``. Rows
do not contain it, so every distinct schema has to be parsed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

from registry.domain.model import Subject, guid_text, identity
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.stored import source_of
from registry.domain.queries import by_subject, entities, versions
from registry.domain.queries.versions import Registered, at
from registry.domain.queries.walks import Search
from registry.domain.rows import layout
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View, scan
from registry.domain.schemas import FORMATS

# Number of earlier versions that a new one is compared with.
EARLIER_VERSIONS_MAX: Final = 10

# The steps of a search, in their order.
NORMALIZING, COLLECTING = "normalizing the schemas", "collecting the groups"

_MD5_BYTES: Final = 16
_ALL: Final = 1 << 62


class Bounds(NamedTuple):
    """Limits of a search: on what it keeps in memory, and on what it lists."""

    # Distinct schemas: some 150 bytes each.
    schemas: int = _ALL
    groups: int = _ALL
    # Contents of a group, and versions of a content.
    contents: int = _ALL
    versions: int = _ALL


NO_BOUNDS: Final = Bounds()


class TooManySchemas(Exception):
    """There are more distinct schemas than a search may keep."""


class Place(NamedTuple):
    """A registered version of a schema."""

    subject: Subject
    version: int
    schema_id: int


@dataclass(slots=True)
class EqualContent:
    """A schema of a group: the first of its versions, by subject, and the number of all."""

    places: list[Place] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True)
class DuplicateGroup:
    """Schemas with the same normal form."""

    schema_type: str
    normal_form: bytes
    # The number of different schemas in it, and the first of them, by guid.
    distinct: int
    contents: dict[bytes, EqualContent] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the group as programs get it."""
        return {
            "schemaType": self.schema_type,
            "normalized": guid_text(self.normal_form),
            "distinct": self.distinct,
            "contents": [
                {
                    "guid": guid_text(md5),
                    "count": content.count,
                    "versions": [
                        {"subject": each.subject.qualified, "version": each.version, "id": each.schema_id}
                        for each in content.places
                    ],
                }
                for md5, content in self.contents.items()
            ],
        }


class Duplicates(NamedTuple):
    """The result of a search."""

    # In the order of their first versions.
    groups: list[DuplicateGroup]
    # The number of all groups, listed or not.
    total: int


def find_groups(
    view: View,
    prefix: str,
    *,
    deleted: bool,
    bounds: Bounds = NO_BOUNDS,
    progress: Callable[[str, int, int], object] = lambda *_: None,
) -> Search[Duplicates]:
    """Search for the groups of two or more schemas that are equal once normalized.

    ``prefix`` is that of ``GET /schemas``; ``deleted`` includes soft-deleted versions. ``progress`` is called
    with the step, and the number of versions examined in it, of all. Raises :class:`TooManySchemas`.

    If the rows change meanwhile, schemas that exist from the beginning to the end are found.
    """
    total = yield from _count_versions(view, prefix)

    def walk(step: str) -> Iterator[Registered | None]:
        for done, registered in enumerate(_in_scope(view, prefix, deleted=deleted), 1):
            yield registered
            progress(step, done, max(done, total))

    forms = yield from _forms_of(view, walk(NORMALIZING), bounds)
    repeated = _find_repeated(forms)
    if not repeated:
        return Duplicates([], 0)
    # A second pass, so that versions of the many schemas without duplicates are not kept in memory.
    groups = yield from _collect_groups(walk(COLLECTING), forms, repeated, bounds)
    found = [group for group in groups if len(group.contents) > 1]
    return Duplicates(found, len(repeated) - len(groups) + len(found))


def _count_versions(view: View, prefix: str) -> Search[int]:
    total = 0
    for start, _ in _ranges(view, prefix):
        for _ in scan(view, start):
            total += 1
            yield
    return total


def _forms_of(view: View, walk: Iterator[Registered | None], bounds: Bounds) -> Search[dict[bytes, bytes]]:
    """Search for the normal form of each schema; both have their type behind them."""
    forms: dict[bytes, bytes] = {}
    for registered in walk:
        if registered is not None and (content := _content(registered.row)) not in forms:
            if len(forms) == bounds.schemas:
                raise TooManySchemas
            forms[content] = _form(view, registered, content)
        yield
    return forms


def _collect_groups(
    walk: Iterator[Registered | None], forms: dict[bytes, bytes], repeated: dict[bytes, int], bounds: Bounds
) -> Search[list[DuplicateGroup]]:
    """Search for the versions of schemas with repeated normal forms."""
    groups: dict[bytes, DuplicateGroup] = {}
    for registered in walk:
        form = None if registered is None else forms.get(_content(registered.row))
        if registered is not None and form in repeated:
            if form not in groups and len(groups) < bounds.groups:
                schema_type = entities.schema_type(registered.row)
                groups[form] = DuplicateGroup(schema_type, form[:_MD5_BYTES], repeated[form])
            if form in groups:
                _add(groups[form], registered, bounds)
        yield
    return list(groups.values())


def _add(group: DuplicateGroup, registered: Registered, bounds: Bounds) -> None:
    md5 = registered.row.md5
    if md5 not in group.contents and len(group.contents) == bounds.contents:
        return
    content = group.contents.setdefault(md5, EqualContent())
    content.count += 1
    if len(content.places) < bounds.versions:
        place = Place(registered.subject, registered.version, registered.row.schema_id)
        content.places.append(place)


def _find_repeated(forms: dict[bytes, bytes]) -> dict[bytes, int]:
    """Return the normal forms of several schemas, each with the number of these."""
    counted = ((form, sum(1 for _ in same)) for form, same in groupby(sorted(forms.values())))
    return {form: count for form, count in counted if count > 1}


def _in_scope(view: View, prefix: str, *, deleted: bool) -> Iterator[Registered | None]:
    """Walk the versions under a prefix."""
    for start, test in _ranges(view, prefix):
        for key, _ in scan(view, start):
            found = versions.at(view, key)
            shown = found is not None and test(found.subject) and (deleted or not found.row.deleted)
            yield found if shown else None


def _ranges(view: View, prefix: str) -> list[tuple[bytes, Callable[[Subject], bool]]]:
    return sorted(by_subject.ranges(view, layout.VERSION, prefix), key=lambda each: each[0])


def _content(row: VersionRow) -> bytes:
    """Return the guid of a schema with its type, which the guid does not contain."""
    return row.md5 + entities.schema_type(row).encode()


def _form(view: View, registered: Registered, content: bytes) -> bytes:
    """Return the normal form of a schema with its type; of one that is normalized, the same object."""
    form = _normal_form_of(view, registered) + content[_MD5_BYTES:]
    return content if form == content else form


def _normal_form_of(view: View, registered: Registered) -> bytes:
    """Return the normal form of a schema; one that cannot be parsed is its own normal form."""
    row = registered.row
    try:
        source = source_of(view, registered)
        parsed = FORMATS[source.schema_type].parse(source.text, source.dependencies, new=False)
        normalized = parsed.normalized
    except Exception:
        # An unexpected parser error on one text must not stop the search.
        return row.md5
    return _normal_form(row, normalized)


def _normal_form(row: VersionRow, normalized: str) -> bytes:
    listed = sorted(set(entities.references(row)), key=lambda each: (each.name, each.subject, each.version))
    return identity(normalized, listed, entities.metadata(row), entities.rule_set(row))


def equal_to(view: View, subject: Subject, number: int) -> Querying[int | None]:
    """Return the newest earlier version that equals version ``number`` once both are normalized.

    Of the last few versions, those with the same fields are compared. Raises :class:`InvalidSchema`.
    """
    new = versions.get(view, subject, number)
    if new is None or entities.schema_type(new) not in FORMATS:
        return None
    for each in islice(versions.versions(view, subject, newest_first=True), EARLIER_VERSIONS_MAX + 1):
        if each.version < number and _may_be_equal(each.row, new):
            wanted, earlier = source_of(view, Registered(subject, number, new)), source_of(view, each)
            if (yield from querying.field_names(earlier)) != (yield from querying.field_names(wanted)):
                continue
            texts = (yield from querying.normalized(earlier)), (yield from querying.normalized(wanted))
            if _normal_form(each.row, texts[0]) == _normal_form(new, texts[1]):
                return each.version
    return None


def _may_be_equal(one: VersionRow, other: VersionRow) -> bool:
    """Return true if two versions agree in everything that normalization preserves."""
    schema_type = entities.schema_type(one)
    same_type = schema_type == entities.schema_type(other)
    return same_type and FORMATS[schema_type].may_normalize_alike(one.schema, other.schema)


def id_conflicts(view: View) -> Iterator[tuple[Registered, Registered] | None]:
    """Walk the versions whose id has other content, each with the version that answers for that id.

    Other writers can assign an id twice. The fold keeps both versions, because they may have different
    owners, and reads by id return the one recorded first. Ordered by context and id. Looks at the id of every
    version.
    """
    begun, waiting, answering = b"", b"", None
    for key, _ in scan(view, layout.ID):
        prefix = key[: key.index(b"\0") + 1 + 4]
        if prefix != begun:
            begun, waiting, answering = prefix, key, None  # most ids have one row
            yield None
            continue
        if waiting:
            answering, waiting = _at(view, waiting, prefix), b""
        each = _at(view, key, prefix)
        if answering is None:
            answering = each
        clashing = each is not None and answering is not None and each.row.md5 != answering.row.md5
        yield (each, answering) if each is not None and answering is not None and clashing else None


def _at(view: View, key: bytes, prefix: bytes) -> Registered | None:
    return at(view, layout.version_key_of_id(key, prefix))
