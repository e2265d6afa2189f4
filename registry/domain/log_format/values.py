"""Values of the log's records, written and read.

Written: members in Confluent's order. Absent members and empty texts, lists and maps are left out; ``false``
and 0 are kept; metadata and rule sets that are present but empty stay as ``{}``.

Read: unknown members are ignored, and so are ``offset`` and ``ts`` (those of the record count) and the
subject and version that a value repeats (those of its key count). Types are strict. Raises only
:class:`BadValue`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import orjson

from registry.domain import model
from registry.domain.model import (
    DEFAULT_TYPE,
    ID_MAX,
    VERSION_MAX,
    Metadata,
    Reference,
    RuleSet,
    Subject,
    identity,
)
from registry.domain.rows.version_row import VersionRow

from .jackson import dumps
from .records import TENANT

_T = TypeVar("_T")


class BadValue(Exception):
    """Raised for a value that does not fit the kind of its key."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SchemaContent(NamedTuple):
    """The content of a ``SCHEMA`` value."""

    schema_id: int
    # The guid: the stored one if present, which then covers sensitive values in clear text.
    md5: bytes
    md5_stored: bool
    schema_type: str
    references: list[Reference]
    metadata: Metadata | None
    rule_set: RuleSet | None
    schema: str
    deleted: bool


class SchemaHead(NamedTuple):
    """The part of a ``SCHEMA`` value that events contain."""

    schema_id: int
    schema_type: str
    deleted: bool


def schema_value(
    subject: Subject,
    version: int,
    schema_id: int,
    schema: str,
    *,
    schema_type: str = DEFAULT_TYPE,
    references: Sequence[Reference] = (),
    metadata: Metadata | None = None,
    rule_set: RuleSet | None = None,
    deleted: bool = False,
    md5: bytes | None = None,
) -> bytes:
    """Return the value of a version; ``md5`` (16 bytes) only if it does not follow from the other members."""
    members = subject_member(subject) | {"version": version, "id": schema_id}
    if md5 is not None:
        members["md5"] = b64encode(md5).decode()
    members["schemaType"] = schema_type
    if references:
        members["references"] = [msgspec.to_builtins(each) for each in references]
    if metadata is not None:
        members["metadata"] = msgspec.to_builtins(metadata)
    if rule_set is not None:
        members["ruleSet"] = msgspec.to_builtins(rule_set)
    if schema:
        members["schema"] = schema
    members["deleted"] = deleted
    return dumps(members)


_KIND = len(b',"guid":"00000000-0000-0000-0000-000000000000"')


def schema_value_of(row: VersionRow, *, deleted: bool) -> bytes:
    """Return the value that a version row was made from, with another ``deleted``, else unchanged."""
    md5 = b',"md5":"%s"' % b64encode(row.md5) if row.md5_stored else b""
    front = (row.head, b',"id":%d' % row.schema_id, md5, row.kind[_KIND:])
    flag = b',"deleted":true}' if deleted else b',"deleted":false}'
    return b"".join((*front, row.references, row.metadata, row.rules, row.schema, flag))


def delete_subject_value(subject: Subject, version: int) -> bytes:
    """Return the value of a soft delete of all versions up to ``version``."""
    return dumps(subject_member(subject) | {"version": version})


def clear_subject_value(subject: Subject) -> bytes:
    """Return the value of a clear."""
    return dumps(subject_member(subject))


def context_value(context: str) -> bytes:
    """Return the value of a context's existence."""
    return dumps({"tenant": TENANT, "context": context})


def reservation_value(upto: int) -> bytes:
    """Return the value of a reservation: all ids up to and including ``upto`` are taken."""
    return b'{"upto":%d}' % upto


def subject_member(subject: Subject) -> dict[str, Any]:
    """Return the first member of a value; none for the default of all subjects."""
    name = subject.qualified
    return {"subject": name} if name else {}


def read_object(raw: bytes) -> dict[str, Any]:
    """Return the members of a value."""
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise BadValue("the value is not JSON") from None
    if type(fields) is not dict:
        raise BadValue("the value is not a JSON object")
    return fields


class SchemaValue(msgspec.Struct):
    """A ``SCHEMA`` value as it is read."""

    schema: str
    id: Annotated[int, msgspec.Meta(ge=0, le=ID_MAX)]
    md5: str | None = None
    schemaType: str | None = None
    references: list[Reference] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None
    deleted: bool | None = None


# Reads a ``SCHEMA`` value. Raises :class:`ValueError` or :class:`RecursionError`.
decode_schema = msgspec.json.Decoder(SchemaValue).decode
_decode_alone = msgspec.json.Decoder(tuple[SchemaValue]).decode_lines


def decode_schemas(raws: Sequence[bytes]) -> list[SchemaValue | None]:
    """Return what :func:`decode_schema` reads from each value; ``None`` where it raises.

    Reading all at once takes three quarters of the time. Each value stands in brackets on a line of its own.
    JSON has no "]" right before "[" within a value, so each line ends an item, and there are as many items as
    values only if each value is one.
    """
    try:
        found = _decode_alone(b"[%b]" % b"]\n[".join(raws)) if raws else []
    except (ValueError, RecursionError):
        return [_decode_or_none(raw) for raw in raws]
    return (
        [*chain.from_iterable(found)] if len(found) == len(raws) else [_decode_or_none(raw) for raw in raws]
    )


def _decode_or_none(raw: bytes) -> SchemaValue | None:
    try:
        return decode_schema(raw)
    except (ValueError, RecursionError):
        return None


def read_schema(raw: bytes) -> SchemaContent:
    """Return a version's content. Text and id are required, ``md5`` must fit; the type has a default."""
    value = _decode(raw)
    schema, references, metadata, rule_set, md5 = value.schema, *_members(value)
    stored = md5 is not None
    if md5 is None:
        md5 = identity(schema, references, metadata, rule_set)
    kind, deleted = value.schemaType or DEFAULT_TYPE, value.deleted or False
    return SchemaContent(value.id, md5, stored, kind, references, metadata, rule_set, schema, deleted)


def read_schema_head(raw: bytes) -> SchemaHead:
    """Return the head of a version; as strict as :func:`read_schema`, without computing the guid."""
    value = _decode(raw)
    _members(value)
    return SchemaHead(value.id, value.schemaType or DEFAULT_TYPE, value.deleted or False)


def _decode(raw: bytes) -> SchemaValue:
    try:
        return decode_schema(raw)
    except (ValueError, RecursionError) as error:
        raise BadValue(str(error)) from None


def _members(
    value: SchemaValue,
) -> tuple[list[Reference], Metadata | None, RuleSet | None, bytes | None]:
    """Return the members that most versions lack; the md5 only if it is stored."""
    references, metadata, rule_set = value.references or [], None, None
    if references:
        _check_versions(references)
    if value.metadata is not None:
        metadata = convert("metadata", value.metadata, model.metadata)
    if value.ruleSet is not None:
        rule_set = convert("ruleSet", value.ruleSet, model.rule_set)
    return references, metadata, rule_set, None if value.md5 is None else _read_md5(value.md5)


def read_integer(fields: dict[str, Any], name: str, least: int, most: int) -> int:
    """Return an integer member, which must lie within the bounds."""
    value = fields.get(name)
    if type(value) is not int or not least <= value <= most:
        raise BadValue(f"{name} is not an integer of {least} to {most}")
    return value


def read_delete_mark(raw: bytes) -> int:
    """Return the highest version that a soft delete of a subject covers."""
    return read_integer(read_object(raw), "version", 0, VERSION_MAX)


def read_reservation(raw: bytes) -> int:
    """Return the highest reserved id."""
    return read_integer(read_object(raw), "upto", 0, ID_MAX)


def _check_versions(references: list[Reference]) -> None:
    if any(not -(2**31) <= each.version <= VERSION_MAX for each in references):
        raise BadValue("references: a version is out of range")


def convert(name: str, value: Any, build: Callable[[Any], _T]) -> _T:
    """Return what ``build`` makes of a member. Raises :class:`BadValue` where that is a validation error."""
    try:
        return build(value)
    except msgspec.ValidationError as error:
        raise BadValue(f"{name}: {error}") from None


def _read_md5(text: str) -> bytes:
    try:
        md5 = b64decode(text, validate=True)
    except ValueError:
        md5 = b""
    if len(md5) != 16:
        raise BadValue("md5 is not 16 bytes in base64")
    return md5


def optional_flag(fields: dict[str, Any], name: str) -> bool | None:
    """Return a boolean member; ``None`` if it is absent or null."""
    value = fields.get(name)
    if value is not None and type(value) is not bool:
        raise BadValue(f"{name} is neither true nor false")
    return value


def optional_text(fields: dict[str, Any], name: str) -> str | None:
    """Return a text member; ``None`` if it is absent or null."""
    value = fields.get(name)
    if value is not None and type(value) is not str:
        raise BadValue(f"{name} is not a text")
    return value


def one_of(*names: str) -> Callable[[dict[str, Any], str], str | None]:
    """Return a reader of an optional text member that has one of these values."""

    def read(fields: dict[str, Any], name: str) -> str | None:
        value = optional_text(fields, name)
        if value is not None and value not in names:
            raise BadValue(f"{name} is unknown")
        return value

    return read
