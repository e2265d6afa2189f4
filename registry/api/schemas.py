"""Schemas by id, by guid, and all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
from xxhash import xxh3_64_intdigest

from registry.domain import associations, entities, lists, queries, scope, versions
from registry.domain import errors as e
from registry.domain.association_rules import AssociationRules
from registry.domain.errors import SCHEMA_ID_NOT_FOUND
from registry.domain.lists import Listed, PlacedVersion
from registry.domain.model import Subject
from registry.domain.rows import View
from registry.domain.schemas import FORMATS
from registry.domain.versions import Registered

from . import tags
from .answers import Answer, Header, json_answer
from .listing import Listing
from .operations import Call, Fresh, Operation
from .paging import page
from .parameters import (
    ASSOCIATED,
    DELETED,
    FIND_TAGS,
    FORMAT,
    LIST_MAX,
    PAGE,
    REFERENCE_FORMAT,
    SCOPE,
    associated,
    flag,
    path_number,
    word,
)

_TYPES = ("JSON", "PROTOBUF", "AVRO")  # the order in which Confluent lists them

_GUID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def list_schemas(call: Call, view: View) -> Listing[Listed]:
    """``GET /schemas``."""
    args = call.args
    chosen = lists.Schemas(
        args["subjectPrefix"],
        args["deleted"],
        args["latestOnly"],
        args["ruleType"],
        args["aliases"],
        associated(args),
    )

    def walk(view: View, mark: tuple[str, int] | None) -> Iterator[Listed | None]:
        return chosen.walk(view, (Subject.parse(mark[0]), mark[1]) if mark else None)

    printed = partial(_listed, rules=call.settings.defaults.association_rules)
    return page(call, walk, printed, lambda each: _version_mark(each.found), (str, int), limit_max=LIST_MAX)


def _listed(each: Listed, rules: AssociationRules) -> bytes:
    aliases = b',"aliases":' + orjson.dumps(each.aliases) if each.aliases else b""
    tail = aliases + associations.tail_of(each.associations, rules)
    return entities.schema_entity(each.found.row, tail=tail)


def _version_mark(found: Registered) -> tuple[str, int]:
    return found.subject.qualified, found.version


def get_by_id(call: Call, view: View) -> Answer:
    """``GET /schemas/ids/{id}``."""
    found = _by_id(call, view)
    row = call.parser.formatted(view, found, call.args["format"])
    if call.args["referenceFormat"] == "qualified":
        row = entities.with_qualified_references(row, found.subject.context)
    tail = b',"maxId":%d' % versions.id_max(view, found.subject.context) if call.args["fetchMaxId"] else b""
    if call.args["includeSubjects"]:
        # An id that stays may come to further subjects, so this is not remembered as long as the schema.
        context = found.subject.context
        listed = lists.versions_of_id(view, context, found.row.schema_id, b"", deleted=False)
        named = sorted({each.found.subject.qualified for each in listed if each is not None})
        tail += b',"subjects":' + orjson.dumps(named)
        return Answer(entities.schema_string(row, tail=tags.tail_of(call, view, found) + tail))
    return _lasting(call, entities.schema_string(row, tail=tags.tail_of(call, view, found) + tail))


def get_text_by_id(call: Call, view: View) -> Answer:
    """``GET /schemas/ids/{id}/schema``: the bare text. An unknown id is 404, where Confluent answers 500."""
    return _lasting(
        call, entities.text(call.parser.formatted(view, _by_id(call, view), call.args["format"])).encode()
    )


def list_subjects_of_id(call: Call, view: View) -> Listing[PlacedVersion]:
    """``GET /schemas/ids/{id}/subjects``."""
    return _of_id(call, view, lambda found: found.subject.qualified)


def list_versions_of_id(call: Call, view: View) -> Listing[PlacedVersion]:
    """``GET /schemas/ids/{id}/versions``."""
    return _of_id(call, view, lambda found: {"subject": found.subject.qualified, "version": found.version})


def get_by_guid(call: Call, view: View) -> Answer:
    """``GET /schemas/guids/{guid}``."""
    md5 = _md5(call)
    found = versions.by_guid(view, md5) if md5 else None
    if found is None:
        raise SCHEMA_ID_NOT_FOUND(call.path["guid"])
    return _lasting(
        call, entities.schema_string(call.parser.formatted(view, found, call.args["format"]), named=False)
    )


def list_ids_of_guid(call: Call, view: View) -> Answer:
    """``GET /schemas/guids/{guid}/ids``; nothing for a guid that is not known."""
    md5 = _md5(call)
    pairs = queries.ids_of_guid(view, md5) if md5 else []
    return json_answer([{"context": context, "id": schema_id} for context, schema_id in pairs])


def list_types(call: Call, view: View) -> Answer:
    """``GET /schemas/types``: the formats that can be registered."""
    return json_answer([*(name for name in _TYPES if name in FORMATS), *sorted(FORMATS.keys() - {*_TYPES})])


def etag(body: bytes) -> bytes:
    """The entity tag of a body; weak, because the compressed form carries the same."""
    return b'W/"%016x"' % xxh3_64_intdigest(body)


def _lasting(call: Call, body: bytes) -> Answer:
    headers: tuple[Header, ...] = ((b"etag", etag(body)),)
    if call.settings.cache_max_age_s:
        headers += ((b"cache-control", b"max-age=%d" % call.settings.cache_max_age_s),)
    return Answer(body, headers=headers)


def _by_id(call: Call, view: View) -> Registered:
    schema_id = path_number(call.path["id"])
    found = versions.by_id_in_scope(view, schema_id, _scope(call, view))
    if found is None:
        raise SCHEMA_ID_NOT_FOUND(schema_id)
    return found


def _of_id(call: Call, view: View, shown: Callable[[Registered], Any]) -> Listing[PlacedVersion]:
    schema_id, deleted = path_number(call.path["id"]), call.args["deleted"]
    context = queries.id_in_scope(view, schema_id, _scope(call, view)).subject.context

    def walk(view: View, mark: tuple[str] | None) -> Iterator[PlacedVersion | None]:
        after = bytes.fromhex(mark[0]) if mark else b""
        return lists.versions_of_id(view, context, schema_id, after, deleted=deleted)

    return page(
        call, walk, lambda each: orjson.dumps(shown(each.found)), lambda each: (each.place.hex(),), (str,)
    )


def _scope(call: Call, view: View) -> str:
    name: str = call.args["subject"]
    return scope.aliased(view, Subject.parse(name)).qualified if name else name


def _md5(call: Call) -> bytes | None:
    text = call.path["guid"]
    return bytes.fromhex(text.replace("-", "")) if _GUID.fullmatch(text) else None


OPERATIONS = (
    Operation(
        method="GET",
        path="/schemas",
        summary="List schemas by subject and version",
        handler=list_schemas,
        gives="Schemas",
        parameters=(
            word("subjectPrefix", "Beginning of the qualified name; nothing: the default context"),
            flag("aliases", "With the subjects that aliases lead to"),
            DELETED,
            flag("latestOnly", "Only the latest version of each subject"),
            word("ruleType", "Only those that have a rule of this type"),
            *ASSOCIATED,
            *PAGE,
        ),
    ),
    Operation(
        method="GET",
        path="/schemas/types",
        summary="The schema types that can be registered",
        handler=list_types,
        gives="Names",
        fresh=Fresh.NEVER,
    ),
    Operation(
        method="GET",
        path="/schemas/ids/{id}",
        summary="A schema by its id",
        handler=get_by_id,
        gives="SchemaString",
        fresh=Fresh.ON_MISS,
        parameters=(
            SCOPE,
            FORMAT,
            REFERENCE_FORMAT,
            FIND_TAGS,
            flag("fetchMaxId", "With the highest id of the context"),
            flag("includeSubjects", "With the names of the subjects that have it, as Karapace does"),
        ),
        errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/ids/{id}/schema",
        summary="The bare text of a schema by its id",
        handler=get_text_by_id,
        gives="SchemaText",
        fresh=Fresh.ON_MISS,
        parameters=(SCOPE, FORMAT),
        errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/ids/{id}/subjects",
        summary="The subjects that hold an id",
        handler=list_subjects_of_id,
        gives="Names",
        parameters=(SCOPE, DELETED, *PAGE),
        errors=(e.SCHEMA_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/ids/{id}/versions",
        summary="The versions that hold an id, one a subject",
        handler=list_versions_of_id,
        gives="SubjectVersions",
        parameters=(SCOPE, DELETED, *PAGE),
        errors=(e.SCHEMA_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/guids/{guid}",
        summary="A schema by its guid",
        handler=get_by_guid,
        gives="SchemaString",
        fresh=Fresh.ON_MISS,
        parameters=(FORMAT,),
        errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/guids/{guid}/ids",
        summary="Every context and id of a guid",
        handler=list_ids_of_guid,
        gives="ContextIds",
    ),
)
