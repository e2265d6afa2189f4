"""Values of the log's records, written and read.

Written: members in Confluent's order. Absent members and empty texts, lists and maps are left out; ``false``
and 0 are kept; metadata and rule sets that are present but empty stay as ``{}``.

Read: unknown members are ignored, and so are ``offset`` and ``ts`` (those of the record count) and the
subject and version that a value repeats (those of its key count). Types are strict. Raises only
:class:`BadValue`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import orjson

from registry.domain import model
from registry.domain.model import ID_MAX, VERSION_MAX, Metadata, Reference, RuleSet, Subject, identity
from registry.domain.rows.version_row import VersionRow

from .jackson import dumps
from .records import TENANT, AssociationKey

_T = TypeVar("_T")

LEVELS = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE",
)  # fmt: skip
POLICIES = ("STRICT", "LENIENT", "LOGICAL")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
LIFECYCLES = ("STRONG", "WEAK")


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


def schema_value(
    subject: Subject,
    version: int,
    schema_id: int,
    schema: str,
    *,
    schema_type: str = "AVRO",
    references: Sequence[Reference] = (),
    metadata: Metadata | None = None,
    rule_set: RuleSet | None = None,
    deleted: bool = False,
    md5: bytes | None = None,
) -> bytes:
    """Return the value of a version; ``md5`` (16 bytes) only if it does not follow from the other members."""
    members = _subject_member(subject) | {"version": version, "id": schema_id}
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


def config_value(subject: Subject, members: Mapping[str, Any]) -> bytes:
    """Return the value of a config; ``members`` are named as in the log, plain or :mod:`.model` structs."""
    out = _subject_member(subject)
    for name in _CONFIG:
        value = members.get(name)
        if isinstance(value, msgspec.Struct):
            out[name] = msgspec.to_builtins(value)
        elif value is not None and value != "":
            out[name] = value
    return dumps(out)


def mode_value(subject: Subject, mode: str) -> bytes:
    """Return the value of a mode."""
    return dumps(_subject_member(subject) | {"mode": mode})


def delete_subject_value(subject: Subject, version: int) -> bytes:
    """Return the value of a soft delete of all versions up to ``version``."""
    return dumps(_subject_member(subject) | {"version": version})


def clear_subject_value(subject: Subject) -> bytes:
    """Return the value of a clear."""
    return dumps(_subject_member(subject))


def context_value(context: str) -> bytes:
    """Return the value of a context's existence."""
    return dumps({"tenant": TENANT, "context": context})


def reservation_value(upto: int) -> bytes:
    """Return the value of a reservation: all ids up to and including ``upto`` are taken."""
    return b'{"upto":%d}' % upto


def _subject_member(subject: Subject) -> dict[str, Any]:
    return {"subject": subject.qualified} if subject.qualified else {}


def read_object(raw: bytes) -> dict[str, Any]:
    """Return the members of a value."""
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise BadValue("the value is not JSON") from None
    if type(fields) is not dict:
        raise BadValue("the value is not a JSON object")
    return fields


class _SchemaValue(msgspec.Struct):
    schema: str
    id: Annotated[int, msgspec.Meta(ge=0, le=ID_MAX)]
    md5: str | None = None
    schemaType: str | None = None
    references: list[Reference] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None
    deleted: bool | None = None


# Reads a ``SCHEMA`` value. Raises :class:`ValueError` or :class:`RecursionError`.
decode_schema = msgspec.json.Decoder(_SchemaValue).decode


def read_schema(raw: bytes) -> SchemaContent:
    """Return a version's content. Text and id are required, ``md5`` must fit, a missing type is AVRO."""
    try:
        value = decode_schema(raw)
    except (ValueError, RecursionError) as error:
        raise BadValue(str(error)) from None
    schema, references, metadata, rule_set = value.schema, value.references or [], None, None
    if references:
        _check_versions(references)
    if value.metadata is not None:
        metadata = _convert("metadata", value.metadata, model.metadata)
    if value.ruleSet is not None:
        rule_set = _convert("ruleSet", value.ruleSet, model.rule_set)
    stored = value.md5 is not None
    md5 = _read_md5(value.md5) if value.md5 is not None else identity(schema, references, metadata, rule_set)
    kind, deleted = value.schemaType or "AVRO", value.deleted or False
    return SchemaContent(value.id, md5, stored, kind, references, metadata, rule_set, schema, deleted)


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


def read_mode(raw: bytes) -> str:
    """Return the mode."""
    mode = read_object(raw).get("mode")
    if type(mode) is not str or mode not in MODES:
        raise BadValue("mode is unknown")
    return mode


def read_config(subject: Subject, raw: bytes) -> bytes:
    """Return the config as this registry writes it: only known members, and the subject of its key."""
    fields = read_object(raw)
    return config_value(subject, {name: read(fields, name) for name, read in _CONFIG.items()})


def read_association(key: AssociationKey, raw: bytes, ts: int) -> bytes:
    """Return the association as JSON in Confluent's order, with the time of its record as ``updateTs``.

    Without ``createTs`` it was created at that time.
    """
    fields = read_object(raw)
    out = {
        "guid": _optional_text(fields, "guid"),
        "tenant": TENANT,
        "resourceName": key.resource_name,
        "resourceNamespace": key.resource_namespace,
        "resourceId": _optional_text(fields, "resourceId"),
        "resourceType": key.resource_type,
        "associationType": key.association_type,
        "subject": key.subject.qualified,
        "lifecycle": _one_of(*LIFECYCLES)(fields, "lifecycle"),
        "frozen": _optional_flag(fields, "frozen"),
        "createTs": ts if type(fields.get("createTs")) is not int else fields["createTs"],
        "updateTs": ts,
    }
    return dumps({name: value for name, value in out.items() if value is not None and value != ""})


def _check_versions(references: list[Reference]) -> None:
    if any(not -(2**31) <= each.version <= VERSION_MAX for each in references):
        raise BadValue("references: a version is out of range")


def _convert(name: str, value: Any, build: Callable[[Any], _T]) -> _T:
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


def _optional_flag(fields: dict[str, Any], name: str) -> bool | None:
    value = fields.get(name)
    if value is not None and type(value) is not bool:
        raise BadValue(f"{name} is neither true nor false")
    return value


def _optional_text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and type(value) is not str:
        raise BadValue(f"{name} is not a text")
    return value


def _one_of(*names: str) -> Callable[[dict[str, Any], str], str | None]:
    def read(fields: dict[str, Any], name: str) -> str | None:
        value = _optional_text(fields, name)
        if value is not None and value not in names:
            raise BadValue(f"{name} is unknown")
        return value

    return read


def _metadata(fields: dict[str, Any], name: str) -> Any:
    value = fields.get(name)
    return None if value is None else _convert(name, value, model.metadata)


def _rule_set(fields: dict[str, Any], name: str) -> Any:
    value = fields.get(name)
    return None if value is None else _convert(name, value, model.rule_set)


# The members of a config in the log's order, and how to read each.
_CONFIG: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "alias": _optional_text,
    "aliasForDeks": _optional_text,
    "normalize": _optional_flag,
    "validateFields": _optional_flag,
    "validateNewSchemas": _optional_flag,
    "validateRules": _optional_flag,
    "compatibilityLevel": _one_of(*LEVELS),
    "compatibilityPolicy": _one_of(*POLICIES),
    "compatibilityGroup": _optional_text,
    "defaultMetadata": _metadata,
    "overrideMetadata": _metadata,
    "defaultRuleSet": _rule_set,
    "overrideRuleSet": _rule_set,
}
