"""The usage of sources and the census that counted it: values in the log, and the rows made of them.

A *source* is what a census read: a topic, or a column of files. A *use* is how many of its messages name one
schema, by id or guid. A source with many uses has several records, one for each part. Its rows are its value
with offset and time (table T), and one row for each schema that it uses (table H), so that the cost of
finding who uses a schema does not depend on how many sources there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from registry.domain.model import DEFAULT_CONTEXT
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .records import CENSUS, NoopKey, Record
from .values import BadValue

# Uses of a source, and those in one of its records: with the longest numbers and guids such a record stays
# below a Kafka record's usual limit of 1 MiB.
USES_MAX, PART_USES_MAX = 20_000, 5_000
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_CONTEXT = re.compile(r"\.[^:\x00-\x1f\x7f]{0,500}")
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Time = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]  # ms since the epoch; -1: unknown
_Id = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=1_000)]


class Use(msgspec.Struct, frozen=True, array_like=True):
    """The messages of a source that name one schema, on one side, in one framing."""

    side: Literal["key", "value"]
    # ``none``: bytes without a frame; ``null``: no key or value at all.
    framing: Literal["id", "guid", "header-id", "header-guid", "none", "null"]
    # An id, or a guid in 36 characters; ``None`` without a frame.
    schema: _Id | str | None
    messages: _Count
    size: _Count  # in bytes
    # Times of the first and last message, in ms since the epoch; -1 without messages.
    first: _Time
    last: _Time
    # False: the log's retention or compaction has removed some messages; at most so many are left.
    exact: bool = True

    @property
    def reference(self) -> int | bytes | None:
        """The id, or the guid in 16 bytes; ``None`` for messages that name no schema."""
        return bytes.fromhex(self.schema.replace("-", "")) if isinstance(self.schema, str) else self.schema


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The usage of a source, or one part of it, as a row holds it; a record lacks the last four members."""

    # The census that counted it.
    census: _Text
    # ``unread``: the source could not be read to its end, for this ``reason``; then uses may be missing.
    state: Literal["read", "unread"]
    reason: _Text = ""
    # The context whose ids the source's messages name.
    context: _Text = DEFAULT_CONTEXT
    # When the source's end was queried, in ms since the epoch.
    ms: _Count = 0
    messages: _Count = 0
    parts: Annotated[int, msgspec.Meta(ge=1)] = 1
    uses: Annotated[list[Use], msgspec.Meta(max_length=USES_MAX)] = []
    source: str = ""
    part: int = 0
    offset: int = -1
    ts: int = 0


class Census(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A census as its row holds it; the record lacks the last two members."""

    id: _Text
    location: _Text
    # Of its manifest.
    sha256: _Text
    # When it began and ended, in ms since the epoch.
    started: _Count
    ended: _Count
    # It read every topic to the end that it had at ``started`` or later: only then is a schema *unused*.
    complete: bool
    patterns: Annotated[list[_Text], msgspec.Meta(max_length=1_000)] = []
    sources: _Count = 0
    unread: _Count = 0
    partitions: _Count = 0
    messages: _Count = 0
    # The census that it continues; empty: none.
    base: _Text = ""
    offset: int = -1
    ts: int = 0


class SourceUse(NamedTuple):
    """A use of a schema, and the source it is found in."""

    source: str
    use: Use


_decode_usage = msgspec.json.Decoder(Usage).decode
_decode_census = msgspec.json.Decoder(Census).decode
_HIDDEN = frozenset(("offset", "ts", "part", "parts"))
_decode_uses = msgspec.json.Decoder(list[Use]).decode
_encode = msgspec.json.Encoder().encode


def check_usage(usage: Usage) -> Usage:
    """Return the usage; raise :class:`BadValue` for a context or guid that is none."""
    if not _CONTEXT.fullmatch(usage.context):
        raise BadValue("context is not a context's name")
    for use in usage.uses:
        if ("guid" in use.framing) != isinstance(use.schema, str):
            raise BadValue("a guid needs the framing guid or header-guid, and the other way around")
        if ("id" in use.framing.split("-")) != isinstance(use.schema, int):
            raise BadValue("an id needs the framing id or header-id, and the other way around")
        if isinstance(use.schema, str) and not _GUID.fullmatch(use.schema):
            raise BadValue("a guid needs 36 characters with lower-case digits")
    return usage


def read_usage_value(value: bytes) -> Usage:
    """Return the usage in a record's value or a request's body. Raises :class:`BadValue`."""
    try:
        return check_usage(_decode_usage(value))
    except (ValueError, RecursionError) as error:
        raise BadValue(str(error)) from None


def read_census_value(value: bytes) -> Census:
    """Return the census in a record's value or a request's body. Raises :class:`BadValue`."""
    try:
        found = _decode_census(value)
    except (ValueError, RecursionError) as error:
        raise BadValue(str(error)) from None
    if found.started > found.ended:
        raise BadValue("a census does not end before it starts")
    if found.complete and found.unread:
        raise BadValue("a census with unread sources is not complete")
    return found


def check(key: NoopKey, value: bytes) -> None:
    """Raise :class:`BadValue` for a value that is not that of a usage or census, as ``key`` says."""
    if key.registrar == CENSUS:
        read_census_value(value)
    else:
        read_usage_value(value)


def usage_value(usage: Usage) -> bytes:
    """Return the value of the record of a usage."""
    return _encode(msgspec.structs.replace(usage, source="", part=0, offset=-1, ts=0))


def split(usage: Usage) -> list[Usage]:
    """Return the parts of a usage, each for a record of its own."""
    uses = usage.uses
    shares = [uses[begin : begin + PART_USES_MAX] for begin in range(0, len(uses) or 1, PART_USES_MAX)]
    return [
        msgspec.structs.replace(usage, part=part, parts=len(shares), uses=share)
        for part, share in enumerate(shares)
    ]


def says_the_same(one: Usage, other: Usage) -> bool:
    """Return true if two usages differ at most in the census that counted them and in when it did."""
    alike = {"census": "", "ms": 0, "source": "", "part": 0, "parts": 1, "offset": -1, "ts": 0}
    return msgspec.structs.replace(one, **alike) == msgspec.structs.replace(other, **alike)


def census_value(census: Census) -> bytes:
    """Return the value of a census's record."""
    return _encode(msgspec.structs.replace(census, offset=-1, ts=0))


def usage_row(key: NoopKey, value: bytes, record: Record) -> bytes:
    """Return the row of table T. Raises :class:`BadValue`."""
    usage = read_usage_value(value)
    found = msgspec.structs.replace(
        usage, source=key.name or "", part=key.part, offset=record.offset, ts=record.ts
    )
    return _encode(found)


def census_row(value: bytes, record: Record) -> bytes:
    """Return the row of a census. Raises :class:`BadValue`."""
    return _encode(msgspec.structs.replace(read_census_value(value), offset=record.offset, ts=record.ts))


def use_rows(row: bytes | None) -> dict[bytes, bytes]:
    """Return the rows of table H that belong to a row of table T."""
    if row is None:
        return {}
    usage = _decode_usage(row)
    found: dict[bytes, list[Use]] = {}
    for use in usage.uses:
        if (reference := use.reference) is not None:
            found.setdefault(layout.use_prefix(usage.context, reference), []).append(use)
    place = layout.source_key(usage.source, usage.part)[1:]
    return {key + place: _encode(uses) for key, uses in found.items()}


def has_census(view: View) -> bool:
    """Return true if a census has been published."""
    return view.get(layout.cluster_key(CENSUS)) is not None


def census(view: View) -> Census | None:
    """Return the newest census; ``None`` if there is none."""
    row = view.get(layout.cluster_key(CENSUS))
    return None if row is None else _decode_census(row)


def sources(view: View, after: str = "") -> Iterator[Usage]:
    """Yield the usage of each source, its parts together, in the order of their rows."""
    start = layout.after(layout.source_prefix(after)) if after else None
    for _, rows in groupby(scan(view, layout.SOURCE, start), lambda row: row[0][:-4]):
        yield _together(_decode_usage(row) for _, row in rows)


def source(view: View, name: str) -> Usage | None:
    """Return the usage of a source, its parts together; ``None`` if there is none."""
    parts = [_decode_usage(row) for _, row in scan(view, layout.source_prefix(name))]
    return _together(parts) if parts else None


def part_numbers(view: View, name: str) -> list[int]:
    """Return the numbers of the parts of a source, ascending; none if it has no usage."""
    return [int.from_bytes(key[-4:], "big") for key, _ in scan(view, layout.source_prefix(name))]


def _together(parts: Iterable[Usage]) -> Usage:
    first, *others = parts
    uses = [use for part in (first, *others) for use in part.uses]
    return msgspec.structs.replace(first, part=0, parts=1 + len(others), uses=uses)


def uses_of(view: View, context: str, references: Iterable[int | bytes]) -> Iterator[SourceUse]:
    """Yield where ids and guids of a context are used."""
    for reference in references:
        for key, value in scan(view, layout.use_prefix(context, reference)):
            source = _source_named(view, key)
            if source is not None:
                yield from (SourceUse(source, use) for use in _decode_uses(value))


def _source_named(view: View, key: bytes) -> str | None:
    place = layout.source_of(key)
    name = layout.unpart(place[1:-5])
    if name is None and (row := view.get(place)) is not None:
        name = _decode_usage(row).source
    return name


def members(value: Usage | Census) -> dict[str, Any]:
    """Return what clients see of a usage or a census."""
    return {name: each for name, each in msgspec.structs.asdict(value).items() if name not in _HIDDEN}
