"""Schemas that are equal after normalization, and ids with more than one content.

Equal schemas are listed for clean-up, and found on registration.

The normal form of a schema is the guid that it would have if it had been registered with ``normalize``. Rows
do not contain it, so every distinct schema has to be parsed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from registry.domain.model import Subject, identity
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.stored import source_of
from registry.domain.queries import by_subject, entities, versions
from registry.domain.queries.versions import Registered, at
from registry.domain.rows import layout
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View, scan
from registry.domain.schemas import FORMATS

# Number of earlier versions that a new one is compared with.
EARLIER_VERSIONS_MAX: Final = 10

_NAME: Final = rb"\"name\":"  # of an Avro type or field, as in a row

# Schema type with guid, or schema type with normal form.
_Typed = tuple[str, bytes]


class DuplicateGroup(NamedTuple):
    """Schemas with the same normal form."""

    schema_type: str
    normal_form: bytes
    # The registered versions of each schema, by guid.
    contents: Mapping[bytes, list[Registered]]


def find_groups(
    view: View, prefix: str, *, deleted: bool, progress: Callable[[int], object]
) -> list[DuplicateGroup]:
    """Return the groups of two or more schemas that are equal once normalized, by type and normal form.

    ``prefix`` is that of ``GET /schemas``; ``deleted`` includes soft-deleted versions. ``progress`` is called
    with the number of versions examined.
    """
    forms: dict[_Typed, bytes] = {}
    first: dict[_Typed, bytes] = {}
    repeated: set[_Typed] = set()
    for count, registered in enumerate(_in_scope(view, prefix, deleted=deleted), 1):
        content = _content(registered.row)
        if content not in forms:
            forms[content] = _normal_form_of(view, registered)
            group = content[0], forms[content]
            if first.setdefault(group, content[1]) != content[1]:
                repeated.add(group)
        progress(count)
    # A second pass, so that versions of the many schemas without duplicates are not kept in memory.
    found: dict[_Typed, dict[bytes, list[Registered]]] = {group: {} for group in sorted(repeated)}
    for registered in _in_scope(view, prefix, deleted=deleted) if repeated else ():
        schema_type, md5 = content = _content(registered.row)
        group = schema_type, forms[content]
        if group in found:
            found[group].setdefault(md5, []).append(registered)
    return [DuplicateGroup(*group, contents) for group, contents in found.items()]


def _in_scope(view: View, prefix: str, *, deleted: bool) -> Iterator[Registered]:
    for start, test in sorted(by_subject.ranges(view, layout.VERSION, prefix), key=lambda each: each[0]):
        for key, _ in scan(view, start):
            found = versions.at(view, key)
            if found is not None and test(found.subject) and (deleted or not found.row.deleted):
                yield found


def _content(row: VersionRow) -> _Typed:
    return entities.schema_type(row), row.md5


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
    if schema_type != entities.schema_type(other):
        return False
    if schema_type == "JSON":  # only the order of members changes
        return len(one.schema) == len(other.schema)
    if schema_type == "AVRO":
        return one.schema.count(_NAME) == other.schema.count(_NAME)
    return True


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
    return at(view, layout.version_key_of_id(key, prefix, prefix[1:-4]))
