"""Schemas by id and by guid."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
from xxhash import xxh3_64_hexdigest

from registry.domain import errors as e
from registry.domain.errors import SCHEMA_ID_NOT_FOUND, UNPROCESSABLE
from registry.domain.model import Subject
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.stored import format_version
from registry.domain.queries import by_subject, entities, lists, scope, versions
from registry.domain.queries.lists import PlacedVersion
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.view import Skip, View
from registry.security.gate import Permission

from . import registration
from .answers import Answer, Header
from .listing import Listing
from .operations import Call, Freshness, Operation, PendingSearch
from .paging import NOT_OURS, page, whole
from .parameters import (
    DELETED,
    FIND_TAGS,
    FORMAT,
    PAGE,
    REFERENCE_FORMAT,
    SCOPE,
    flag,
    path_number,
)
from .permissions import SHOWN, require_all

_GUID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def get_by_id(call: Call, view: View) -> PendingSearch[Registered]:
    """``GET /schemas/ids/{id}``."""
    return PendingSearch(_by_id(call, view), partial(_schema_string, call))


def _schema_string(call: Call, view: View, found: Registered) -> Querying[Answer | Listing[str]]:
    row = yield from format_version(view, found, call.args["format"], strict=call.strict_references)
    if call.args["referenceFormat"] == "qualified":
        row = entities.with_qualified_references(row, found.subject.context)
    tail = yield from registration.tail_of(call, view, found)
    if call.args["fetchMaxId"]:
        require_all(call.access, Permission.READ, found.subject.context)
        tail += b',"maxId":%d' % versions.id_max(view, found.subject.context)
    body = entities.schema_string(row, tail=tail)
    if call.args["includeSubjects"]:
        # Further subjects may get the id, so unlike the schema this must not be cached.
        named = partial(lists.subjects_of_id, context=found.subject.context, schema_id=row.schema_id)
        head = body.removesuffix(row.tail) + b',"subjects":['
        return whole(named, orjson.dumps, head=head, tail=b"]" + row.tail)
    return _cacheable(call, body)


def get_text_by_id(call: Call, view: View) -> PendingSearch[Registered]:
    """``GET /schemas/ids/{id}/schema``: the bare text. An unknown id is 404, where Confluent answers 500."""

    def text(view: View, found: Registered) -> Querying[Answer]:
        row = yield from format_version(view, found, call.args["format"], strict=call.strict_references)
        return _cacheable(call, entities.text(row).encode())

    return PendingSearch(_by_id(call, view), text)


def list_subjects_of_id(call: Call, view: View) -> PendingSearch[Registered]:
    """``GET /schemas/ids/{id}/subjects``."""
    return _of_id(call, view, lambda found: found.subject.qualified)


def list_versions_of_id(call: Call, view: View) -> PendingSearch[Registered]:
    """``GET /schemas/ids/{id}/versions``."""
    return _of_id(call, view, lambda found: {"subject": found.subject.qualified, "version": found.version})


def get_by_guid(call: Call, view: View) -> PendingSearch[Registered | None]:
    """``GET /schemas/guids/{guid}``."""
    md5 = md5_of(call.path["guid"])
    if md5 is None:
        raise SCHEMA_ID_NOT_FOUND(call.path["guid"])

    def answer(view: View, found: Registered | None) -> Querying[Answer]:
        if found is None:
            raise SCHEMA_ID_NOT_FOUND(call.path["guid"])
        row = yield from format_version(view, found, call.args["format"], strict=call.strict_references)
        return _cacheable(call, entities.schema_string(row, named=False))

    return PendingSearch(partial(versions.by_guid, md5=md5), answer)


def list_ids_of_guid(call: Call, view: View) -> Listing[tuple[str, int]]:
    """``GET /schemas/guids/{guid}/ids``; empty for an unknown guid."""
    md5 = md5_of(call.path["guid"])

    def walk(view: View) -> Iterator[tuple[str, int] | None]:
        return by_subject.ids_of_guid(view, md5) if md5 else iter(())

    return whole(walk, lambda each: orjson.dumps({"context": each[0], "id": each[1]}))


def etag(body: bytes) -> bytes:
    """Return the entity tag of a body; weak, because the compressed body has the same one."""
    return b'W/"%b"' % xxh3_64_hexdigest(body).encode()


def _cacheable(call: Call, body: bytes) -> Answer:
    headers: tuple[Header, ...] = ((b"etag", etag(body)),)
    if call.settings.cache_max_age_s:
        headers += ((b"cache-control", b"max-age=%d" % call.settings.cache_max_age_s),)
    return Answer(body, headers=headers)


def _by_id(call: Call, view: View) -> Callable[[View], Search[Registered]]:
    schema_id, scope = path_number(call.path["id"]), _scope(call, view)

    def search(view: View) -> Search[Registered]:
        found = yield from versions.by_id_in_scope(view, schema_id, scope)
        if found is None:
            raise SCHEMA_ID_NOT_FOUND(schema_id)
        return found

    return search


def _of_id(call: Call, view: View, shown: Callable[[Registered], Any]) -> PendingSearch[Registered]:
    schema_id, scope = path_number(call.path["id"]), _scope(call, view)
    return PendingSearch(
        lambda view: by_subject.id_in_scope(view, schema_id, scope),
        lambda _, found: _holders(call, found.subject.context, schema_id, shown),
    )


def _holders(
    call: Call, context: str, schema_id: int, shown: Callable[[Registered], Any]
) -> Listing[PlacedVersion]:
    deleted = call.args["deleted"]

    def walk(view: View, mark: tuple[str] | None, skip: Skip | None = None) -> Iterator[PlacedVersion | None]:
        after = _place(mark[0]) if mark else b""
        return lists.versions_of_id(view, context, schema_id, after, skip, deleted=deleted)

    def print_item(each: PlacedVersion) -> bytes:
        return orjson.dumps(shown(each.found))

    return page(call, walk, print_item, lambda each: (each.place.hex(),), (str,), skipping=walk)


def _place(text: str) -> bytes:
    """Return the place that a cursor holds. Raises 422 for what no cursor of ours holds."""
    try:
        place = bytes.fromhex(text)
    except ValueError:
        raise UNPROCESSABLE(NOT_OURS) from None
    if len(place) > lists.PLACE_BYTES_MAX:
        raise UNPROCESSABLE(NOT_OURS)
    return place


def _scope(call: Call, view: View) -> str:
    name: str = call.args["subject"]
    return scope.resolve_alias(view, Subject.parse(name)).qualified if name else name


def md5_of(text: str) -> bytes | None:
    """Return the 16 bytes of a guid; ``None`` for a text that is none."""
    return bytes.fromhex(text.replace("-", "")) if _GUID.fullmatch(text) else None


OPERATIONS = (
    Operation(
        method="GET",
        path="/schemas/ids/{id}",
        summary="A schema by its id",
        permission=SHOWN,
        handler=get_by_id,
        response_schema="SchemaString",
        freshness=Freshness.ON_MISS,
        parameters=(
            SCOPE,
            FORMAT,
            REFERENCE_FORMAT,
            FIND_TAGS,
            flag("fetchMaxId", "Include the highest id of the context"),
            flag("includeSubjects", "Include the names of its subjects, as in Karapace"),
        ),
        errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/ids/{id}/schema",
        summary="The text of a schema by its id",
        permission=SHOWN,
        handler=get_text_by_id,
        response_schema="SchemaText",
        freshness=Freshness.ON_MISS,
        parameters=(SCOPE, FORMAT),
        errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/ids/{id}/subjects",
        summary="The subjects with an id",
        permission=SHOWN,
        handler=list_subjects_of_id,
        response_schema="Names",
        parameters=(SCOPE, DELETED, *PAGE),
        errors=(e.SCHEMA_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/ids/{id}/versions",
        summary="The versions with an id, one for each subject",
        permission=SHOWN,
        handler=list_versions_of_id,
        response_schema="SubjectVersions",
        parameters=(SCOPE, DELETED, *PAGE),
        errors=(e.SCHEMA_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/guids/{guid}",
        summary="A schema by its guid",
        permission=SHOWN,
        handler=get_by_guid,
        response_schema="SchemaString",
        freshness=Freshness.ON_MISS,
        parameters=(FORMAT,),
        errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/schemas/guids/{guid}/ids",
        summary="All contexts and ids of a guid",
        permission=SHOWN,
        handler=list_ids_of_guid,
        response_schema="ContextIds",
    ),
)
