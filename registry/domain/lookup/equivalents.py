"""Search for versions that may be equivalent to a given content, without a scan of the subject.

The tolerant comparison (:func:`.find.equivalent`) decides; this search returns all versions for which it can
be true, and few others. Versions are indexed by keys that are derived from everything it compares: type,
rules, metadata, references, and fingerprints instead of texts. Keys are computed once per version and kept in
the subject's index (:mod:`.memory`). Since that requires parsing, only versions with the outline of
the given content get their keys (:meth:`.schemas.Format.outline`). Versions registered since the last search
are added first; there are few, because subjects grow at the top, and :meth:`.view.View.revision` reveals any
other change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from registry.domain.errors import RegistryError
from registry.domain.model import VERSION_MAX, Metadata, Reference, RuleSet, Subject
from registry.domain.parsing import querying
from registry.domain.parsing.memory import SchemaMemory, VersionIndex
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.stored import source_of
from registry.domain.queries import entities
from registry.domain.queries.versions import Registered, get
from registry.domain.rows import layout, version_row
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View, scan
from registry.domain.schemas import FORMATS, Fingerprints, InvalidSchema, digest

from .metadata import VERSION_PROPERTY, property_of, without_version
from .registration import Content

# Versions parsed at once when an index is built, in characters weighted as for Avro.
CHARACTERS_AT_ONCE: Final = 128 * 1024
# Versions added at once without parsing: about 20 ms.
ROWS_AT_ONCE: Final = 500
ROW_BYTES_AT_ONCE: Final = 256 * 1024

# The outline of versions that have none.
_NO_OUTLINE: Final = b""

_encode = msgspec.json.Encoder(order="sorted").encode


def candidates(
    view: View, memory: SchemaMemory, subject: Subject, content: Content, *, deleted: bool = False
) -> Querying[Iterator[Registered]]:
    """Return versions that may be equivalent, newest first; soft-deleted ones only if ``deleted``.

    Pauses while many versions are not in the index yet.
    """
    named = yield from _candidates(view, memory, subject, content)
    rows = ((version, get(view, subject, version)) for version in named)
    return (
        Registered(subject, version, row)
        for version, row in rows
        if row is not None and (deleted or not row.deleted)
    )


def _candidates(view: View, memory: SchemaMemory, subject: Subject, content: Content) -> Querying[list[int]]:
    index = yield from _up_to_date(view, memory, subject)
    if not index:
        return []
    yield from _settle(view, subject, index, _outlines_sought(content))
    memory.indexes.put(subject, index)
    try:
        said = yield from querying.fingerprints(content.source)
    except InvalidSchema:
        return []
    named = index.with_keys(_keys_to_search(content, said))
    repeated = property_of(content.metadata, VERSION_PROPERTY)
    if repeated is not None and repeated.isascii() and repeated.isdigit() and len(repeated) <= 10:
        # A version whose number the given metadata repeats need not repeat it itself.
        number = int(repeated)
        if 0 < number <= VERSION_MAX and number not in named:
            named = sorted([*named, number], reverse=True)
    return named


def _up_to_date(view: View, memory: SchemaMemory, subject: Subject) -> Querying[VersionIndex]:
    index = memory.indexes.of(subject)
    prefix = layout.scope_key(layout.VERSION, subject)
    try:
        _drop_changed(view, prefix, index)
        yield from _take_in(view, prefix, index)
    finally:
        memory.indexes.put(subject, index)
    return index


def _drop_changed(view: View, prefix: bytes, index: VersionIndex) -> None:
    """Truncate the index to the versions whose rows are unchanged."""
    revision = view.revision()
    if revision is not None and revision == index.revision:
        kept = len(index)
        while kept:
            version, state = index.at(kept - 1)
            value = view.get(prefix + layout.number(version))
            if value is not None and version_row.state_of(value) == state:
                break
            kept -= 1
        if kept < len(index):
            index.keep(kept)
        return
    # References may resolve differently after a change of the versions they refer to.
    if index and index.refers:
        index.clear()
    kept = 0
    for (key, value), place in zip(scan(view, prefix), range(len(index)), strict=False):
        if index.at(place) != (layout.unnumber(key[-4:]), version_row.state_of(value)):
            break
        kept += 1
    if kept < len(index):
        index.keep(kept)
    index.revision = revision


def _take_in(view: View, prefix: bytes, index: VersionIndex) -> Querying[None]:
    last = index.last
    start = prefix if last is None else prefix + layout.number(last[0]) + b"\0"
    taken = 0
    for count, (key, value) in enumerate(scan(view, prefix, start)):
        taken += len(value)
        if count and (count % ROWS_AT_ONCE == 0 or taken > ROW_BYTES_AT_ONCE):
            taken = 0
            yield from querying.pause()
        row = VersionRow.unpack(value)
        index.refers = index.refers or bool(row.references)
        index.add(layout.unnumber(key[-4:]), version_row.state_of(value), _outline(row))


def _outline(row: VersionRow) -> bytes | None:
    """Return the outline of a version; ``None`` if nothing is equivalent to it."""
    schema_type = entities.schema_type(row)
    served = FORMATS.get(schema_type)
    if served is None:
        return None
    said = served.outline(entities.text(row))
    if said is None:
        return _NO_OUTLINE
    return b"outer" + said.outer if row.references else b"own" + said.own


def _outlines_sought(content: Content) -> list[bytes] | None:
    said = FORMATS[content.schema_type].outline(content.text)
    if said is None:
        return None
    # Without references, referenced schemas may be inlined.
    own = [] if content.references else [b"own" + said.own]
    return [*own, b"outer" + said.outer, _NO_OUTLINE]


def _settle(
    view: View, subject: Subject, index: VersionIndex, outlines: Sequence[bytes] | None
) -> Querying[None]:
    """Compute the keys of versions with these outlines, as many at once as can be parsed quickly."""
    steps: list[Querying[None]] = []
    characters = 0
    for count, version in enumerate(index.without_keys(outlines), 1):
        value = view.get(layout.version_key(subject, version))
        if value is None:
            index.settle(version, ())
            continue
        each = Registered(subject, version, VersionRow.unpack(value))
        steps.append(_settle_one(view, index, each))
        served = FORMATS.get(entities.schema_type(each.row))
        characters += len(value) * (1 if served is None else served.weight)
        if characters > CHARACTERS_AT_ONCE or count % ROWS_AT_ONCE == 0:
            yield from querying.together(steps)
            steps, characters = [], 0
            if count % ROWS_AT_ONCE == 0:
                yield from querying.pause()
    yield from querying.together(steps)


def _settle_one(view: View, index: VersionIndex, stored: Registered) -> Querying[None]:
    index.settle(stored.version, (yield from _keys(view, stored)))


def _keys(view: View, stored: Registered) -> Querying[Sequence[bytes] | None]:
    """Return the keys of a version; empty if equivalent to none, ``None`` if they may change."""
    row = stored.row
    schema_type = entities.schema_type(row)
    if schema_type not in FORMATS:
        return ()
    listed = entities.references(row)
    try:
        said = yield from querying.fingerprints(source_of(view, stored))
    except InvalidSchema:
        return None if listed else ()
    except RegistryError:
        return ()  # an unreadable text must not keep other versions from being found
    meta, rules = entities.metadata(row), entities.rule_set(row)
    metas = [without_version(meta)]
    if meta is not None and property_of(meta, VERSION_PROPERTY) is not None:
        metas.append(meta)
    texts = _texts_with(said, listed) if listed else [_own(said)]
    return [_key(text, schema_type, each, rules) for text in texts for each in metas]


def _keys_to_search(content: Content, said: Fingerprints) -> list[bytes]:
    meta = content.metadata
    if meta is None or property_of(meta, VERSION_PROPERTY) is None:
        meta = without_version(meta)
    # Without references, referenced schemas may be inlined.
    listed = content.references
    texts = _texts_with(said, listed)[:1] if listed else [_own(said), _outer(said)]
    return [_key(each, content.schema_type, meta, content.rules) for each in texts]


def _own(said: Fingerprints) -> str:
    return f"own {said.own.hex()}"


def _outer(said: Fingerprints) -> str:
    return f"outer {said.outer.hex()}"


def _texts_with(said: Fingerprints, references: list[Reference]) -> list[str]:
    return [f"own {said.own.hex()} {_encode(references).decode()}", _outer(said)]


def _key(text: str, schema_type: str, meta: Metadata, rules: RuleSet | None) -> bytes:
    return digest((text, schema_type, _encode(meta).decode(), _encode(rules).decode()))
