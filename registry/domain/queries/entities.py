"""JSON bodies of the API, assembled from the pieces of version rows without parsing or printing them again.

Members come in Confluent's order; absent ones are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from registry.domain.log_format.jackson import dumps
from registry.domain.model import DEFAULT_CONTEXT, Metadata, Reference, RuleSet, Subject, guid_text
from registry.domain.rows.version_row import VersionRow

from .associations import STRONG, WEAK, Association, AssociationRules
from .scope import Config


def entity(found: Association, rules: AssociationRules) -> dict[str, Any]:
    """Return the ``Association`` as the API shows it."""
    shown = msgspec.structs.replace(
        found,
        lifecycle=STRONG if found.strong else WEAK,
        frozen=_shown_frozen(found, rules),
        create_ts=found.created_ms,
    )
    return {"subject": shown.subject, **msgspec.to_builtins(shown)}


def _shown_frozen(found: Association, rules: AssociationRules) -> bool | None:
    implied = rules.omits_implied_frozen and found.is_frozen == found.strong
    return None if implied else found.is_frozen


def tail_of(found: list[Association], rules: AssociationRules) -> bytes:
    """Return the member of ``ExtendedSchema`` for associations after a comma; empty if there are none."""
    return b',"associations":' + dumps([entity(each, rules) for each in found]) if found else b""


def info(found: Association, rules: AssociationRules, schema: bytes | None = None) -> dict[str, Any]:
    """Return an association as the answer about its resource has it; ``schema``: JSON of its ``Schema``."""
    members = {
        "subject": found.subject,
        "associationType": found.association_type,
        "lifecycle": STRONG if found.strong else WEAK,
        "frozen": _shown_frozen(found, rules),
        "schema": None if schema is None else msgspec.Raw(schema),
    }
    return {name: value for name, value in members.items() if value is not None}


def response(
    name: str | None,
    namespace: str | None,
    resource_id: str | None,
    resource_type: str | None,
    infos: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return ``AssociationResponse`` without absent and empty members (Confluent 8.x)."""
    members = {
        "resourceName": name,
        "resourceNamespace": namespace,
        "resourceId": resource_id,
        "resourceType": resource_type,
        "associations": infos,
    }
    return {name: value for name, value in members.items() if value}


_SCHEMA = len(b',"schema":')
_REFERENCES = len(b',"references":')
_METADATA = len(b',"metadata":')
_RULES = len(b',"ruleSet":')
_TYPE = len(b',"guid":"00000000-0000-0000-0000-000000000000","schemaType":')

_references = msgspec.json.Decoder(list[Reference]).decode
_metadata = msgspec.json.Decoder(Metadata).decode
_rule_set = msgspec.json.Decoder(RuleSet).decode


def schema_entity(
    row: VersionRow, *, times: bool = True, schema_tags: bytes = b"", tail: bytes = b""
) -> bytes:
    """Return ``Schema``, the answer by subject and version and to lookups.

    ``times``: include ``ts`` and ``deleted``.
    ``schema_tags``, ``tail``: more members, each with its leading comma, before ``ts`` and ``ruleSet``.
    """
    schema_id, ts = b',"id":%d' % row.schema_id, row.tail[:-1] if times else b""
    front = (row.head, schema_id, row.kind, row.references, row.metadata, row.schema)
    return b"".join((*front, schema_tags, ts, tail, row.rules, b"}"))


def schema_string(row: VersionRow, *, tail: bytes = b"", named: bool = True) -> bytes:
    """Return ``SchemaString``, the answer by id, or by guid if not ``named``.

    ``tail``: more members before ``ts``, each with its leading comma.
    """
    start = row.head + row.kind if named else b"{" + row.kind[1:]
    return b"".join((start, row.schema, row.references, row.metadata, row.rules, tail, row.tail))


def registration_response(row: VersionRow, version: int, *, times: bool = False) -> bytes:
    """Return ``RegisterSchemaResponse``; ``times``: include ``ts`` and ``deleted``."""
    ts = row.tail[:-1] if times else b""
    start = b'{"id":%d,"version":%d' % (row.schema_id, version)
    return b"".join((start, row.kind, row.references, row.metadata, row.rules, row.schema, ts, b"}"))


def text(row: VersionRow) -> str:
    """Return the stored schema text."""
    return str(orjson.loads(row.schema[_SCHEMA:]))


def schema_type(row: VersionRow) -> str:
    """Return the schema type, which another writer may have made up."""
    return str(orjson.loads(row.kind[_TYPE:]))


def references(row: VersionRow) -> list[Reference]:
    """Return the references as the client wrote them."""
    return _references(row.references[_REFERENCES:]) if row.references else []


def metadata(row: VersionRow) -> Metadata | None:
    """Return the stored metadata."""
    return _metadata(row.metadata[_METADATA:]) if row.metadata else None


def rule_set(row: VersionRow) -> RuleSet | None:
    """Return the stored rule set."""
    return _rule_set(row.rules[_RULES:]) if row.rules else None


def with_text(row: VersionRow, schema: str) -> VersionRow:
    """Return the row with another text; everything else stays, including the guid."""
    return row._replace(schema=b',"schema":' + orjson.dumps(schema))


def with_qualified_references(row: VersionRow, context: str) -> VersionRow:
    """Return the row with references qualified by ``context`` (``referenceFormat=qualified``)."""
    if context == DEFAULT_CONTEXT or not row.references:
        return row
    listed = [
        Reference(each.name, Subject.within(context, each.subject).qualified, each.version)
        for each in references(row)
    ]
    return row._replace(references=b',"references":' + msgspec.json.encode(listed))


def version_tag(version: int, row: VersionRow) -> str:
    """Return the entity tag of a version, without quotes: it changes with its record and its deletion."""
    return f"{version}-{row.offset}{'-deleted' if row.deleted else ''}"


def body_tag(body: bytes) -> str:
    """Return the entity tag, without quotes, of a config or mode as ``GET`` shows it."""
    return hashlib.blake2b(body, digest_size=12).hexdigest()


def config_entity(config: Config) -> bytes:
    """Return ``Config``, the answer of GET and DELETE, with the level as ``compatibilityLevel``."""
    return msgspec.json.encode(config)


def config_update(config: Config) -> bytes:
    """Return ``ConfigUpdateRequest``, the answer of PUT, with the level as ``compatibility``."""
    members: dict[str, Any] = msgspec.to_builtins(config)
    renamed = {"compatibilityLevel": "compatibility"}
    return orjson.dumps({renamed.get(name, name): value for name, value in members.items()})


def mode_entity(mode: str | None) -> bytes:
    """Return ``Mode``; an absent mode is left out."""
    return b"{}" if mode is None else orjson.dumps({"mode": mode})


def as_printed(value: Metadata | RuleSet | None) -> str:
    """Return metadata or rules as Confluent's messages print them."""
    return "null" if value is None else msgspec.json.encode(value).decode()


def registered_unstored(
    schema_id: int,
    version: int,
    md5: bytes,
    schema_type: str,
    schema: str,
    listed: Sequence[Reference],
    meta: Metadata | None,
    rules: RuleSet | None,
) -> bytes:
    """Return ``RegisterSchemaResponse`` of a version without a row yet, so without ``ts`` and ``deleted``."""
    front = b'{"id":%d,"version":%d,"guid":"%s"' % (schema_id, version, guid_text(md5).encode())
    parts = [front, b',"schemaType":', orjson.dumps(schema_type)]
    if listed:
        parts += (b',"references":', msgspec.json.encode(listed))
    if meta is not None:
        parts += (b',"metadata":', msgspec.json.encode(meta))
    if rules is not None:
        parts += (b',"ruleSet":', msgspec.json.encode(rules))
    return b"".join((*parts, b',"schema":', orjson.dumps(schema), b"}"))
