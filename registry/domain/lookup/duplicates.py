"""Contents that are the same once they are normalised: found piece by piece, each piece in bounded work.

The normal form of a content is the guid that it would have, had ``normalize`` been asked for when it was
registered. Nothing in the rows tells it: every schema has to be read once.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from registry.domain.model import Subject, guid_text, identity
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.parsing.stored import source_of
from registry.domain.queries import by_subject, entities, versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.layout import VersionRow, View
from registry.domain.schemas import FORMATS, InvalidSchema

EQUALS_SOUGHT: Final = 10
"""Earlier versions that a new one is held against."""

_NAME: Final = rb"\"name\":"
"""Of a type or a field, as it stands in a row."""


class Content(NamedTuple):
    """What makes two contents one."""

    schema_type: str
    md5: bytes


class Scope(NamedTuple):
    """Where duplicates are sought: under a prefix of subjects (as for ``GET /schemas``)."""

    prefix: str
    deleted: bool
    """Among soft-deleted versions too."""


class Piece(NamedTuple):
    """The next versions of a scope."""

    held: list[tuple[Content, bytes]]
    """Their contents, and the keys of their rows."""
    unknown: dict[Content, Registered]
    """The contents among them whose normal form is not known, with a version of each."""
    rows: int
    """How many version rows were looked at."""
    end: bytes | None
    """The key of the last one; ``None`` when there are no more."""


class AtOnce(NamedTuple):
    """How much is looked at in one piece."""

    rows: int = 500
    """Of versions: some 20 ms."""
    characters: int = 1_000_000
    """Of the schemas that are read, by a process beside: some tenths of a second."""


def next_piece(view: View, scope: Scope, after: bytes, known: Container[Content], at_once: AtOnce) -> Piece:
    """The versions behind the row ``after``; ``known``: those whose normal form is known."""
    held: list[tuple[Content, bytes]] = []
    unknown: dict[Content, Registered] = {}
    size = count = 0
    for key, value in _rows_behind(view, scope.prefix, after):
        count += 1
        if scope.deleted or not layout.is_deleted(value):
            row = VersionRow.unpack(value)
            content = _content(row)
            held.append((content, key))
            if content not in unknown and content not in known:
                unknown[content] = Registered(versions.subject_at(key, value), layout.unnumber(key[-4:]), row)
                size += len(row.schema)
        if count == at_once.rows or size > at_once.characters:
            return Piece(held, unknown, count, key)
    return Piece(held, unknown, count, None)


def _rows_behind(view: View, prefix: str, after: bytes) -> Iterator[tuple[bytes, bytes]]:
    for start, test in sorted(by_subject.ranges(view, layout.VERSION, prefix), key=lambda each: each[0]):
        if after < layout.after(start):
            for key, value in layout.scan(view, start, max(start, after + b"\0")):
                if test(versions.subject_at(key, value)):
                    yield key, value


def forms(view: View, unknown: Mapping[Content, Registered]) -> Querying[dict[Content, bytes]]:
    """The normal form of each content; one that is no schema any more is its own."""
    found = {content: content.md5 for content in unknown}
    sources = {content: source for content, each in unknown.items() if (source := _source(view, each))}
    if not sources:
        return found
    texts = yield from querying.normal_texts(tuple(sources.values()))
    for content, text in zip(sources, texts, strict=True):
        if text is not None:
            found[content] = _form(unknown[content].row, text)
    return found


def _source(view: View, registered: Registered) -> Source | None:
    try:
        return source_of(view, registered)
    except InvalidSchema:
        return None


def _form(row: VersionRow, text: str) -> bytes:
    listed = sorted(set(entities.references(row)), key=lambda each: (each.name, each.subject, each.version))
    return identity(text, listed, entities.metadata(row), entities.rule_set(row))


class Group(NamedTuple):
    """Contents with one normal form."""

    schema_type: str
    form: bytes
    held: Mapping[bytes, list[bytes]]
    """By guid the keys of version rows."""


def group_entity(view: View, scope: Scope, group: Group) -> dict[str, Any] | None:
    """The group as the API tells it; ``None`` where by now fewer than two of its contents are left."""
    contents = []
    for md5, keys in group.held.items():
        content = Content(group.schema_type, md5)
        listed = [
            {"subject": each.subject.qualified, "version": each.version, "id": each.row.schema_id}
            for each in (versions.at(view, key) for key in keys)
            if each is not None and _content(each.row) == content and (scope.deleted or not each.row.deleted)
        ]
        if listed:
            contents.append({"guid": guid_text(md5), "versions": listed})
    if len(contents) < 2:
        return None
    return {"schemaType": group.schema_type, "normalized": guid_text(group.form), "contents": contents}


def _content(row: VersionRow) -> Content:
    return Content(entities.schema_type(row), row.md5)


def equal_to(view: View, subject: Subject, number: int) -> Querying[int | None]:
    """The newest earlier version that says the same as version ``number``, once both are normalised.

    Only the last few are looked at, those with the same fields. Raises :class:`InvalidSchema`.
    """
    new = versions.get(view, subject, number)
    if new is None or entities.schema_type(new) not in FORMATS:
        return None
    for each in islice(versions.versions(view, subject, newest_first=True), EQUALS_SOUGHT + 1):
        if each.version < number and _may_be_equal(each.row, new):
            wanted, earlier = source_of(view, Registered(subject, number, new)), source_of(view, each)
            if (yield from querying.field_names(earlier)) != (yield from querying.field_names(wanted)):
                continue
            texts = (yield from querying.normalized(earlier)), (yield from querying.normalized(wanted))
            if _form(each.row, texts[0]) == _form(new, texts[1]):
                return each.version
    return None


def _may_be_equal(one: VersionRow, other: VersionRow) -> bool:
    """Whether two versions are worth reading: what normalising leaves alone is the same."""
    schema_type = entities.schema_type(one)
    if schema_type != entities.schema_type(other):
        return False
    if schema_type == "JSON":  # members change places only
        return len(one.schema) == len(other.schema)
    if schema_type == "AVRO":
        return one.schema.count(_NAME) == other.schema.count(_NAME)
    return True
