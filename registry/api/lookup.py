"""``GET /schemas/lookup``: schemas by an id in any context, or by a guid, and the versions that use them.

An id means another schema in each context, and a guid may have another id in each.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, NamedTuple

import orjson

from registry.domain import errors as e
from registry.domain.model import ID_MAX
from registry.domain.queries import entities, lists, versions
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search, first
from registry.domain.rows.view import View

from .answers import Answer, json_answer
from .operations import Call, Operation, PendingSearch
from .parameters import limit, number, word
from .permissions import SHOWN
from .schemas import md5_of

# Schemas in one answer, characters of their texts (one may have more), contexts that are looked into, and
# versions that are named for each.
SCHEMAS_MAX: Final = 100
CHARACTERS_MAX: Final = 2 * 1024 * 1024
CONTEXTS_MAX: Final = 1_000
USES_MAX: Final = 200


class _Found(NamedTuple):
    """A schema, and the first versions that have its id, each with whether it is soft-deleted."""

    found: Registered
    uses: list[Registered]
    more: bool


class _Page(NamedTuple):
    """Schemas, and the last context that was looked into; None: there are no others.

    Where a page ends within a context, which can have a guid under several ids, ``after`` is ``context:id``.
    """

    schemas: list[_Found]
    after: str | None


def look_up(call: Call, view: View) -> Answer | PendingSearch[_Page]:
    """Return the schemas in the order of their contexts, the default one first."""
    args = call.args
    if bool(args["id"]) == bool(args["guid"]):
        raise e.UNPROCESSABLE("Give an id or a guid")
    schema_id = _id_of(args["id"]) if args["id"] else None
    md5 = md5_of(args["guid"]) if args["guid"] else None
    if schema_id is None and md5 is None:
        raise e.UNPROCESSABLE("guid is not valid")
    if schema_id is not None and schema_id > ID_MAX:
        return _answer(_Page([], None))
    given = args["context"].strip(":")
    only = given if given.startswith(".") or not given else f".{given}"
    most = limit(args, SCHEMAS_MAX)
    begun, _, passed = args["after"].partition(":")
    passed_id = _id_of(passed) if passed else 0

    def search(view: View) -> Search[_Page]:
        found, characters, looked = list[_Found](), 0, 0
        last = args["after"] or None
        walk = iter((only,)) if only else versions.contexts(view, "", begun or None)
        for context in chain((begun,), walk) if passed and not only else walk:
            yield
            if context is None:
                continue
            if looked == CONTEXTS_MAX:
                return _Page(found, last)
            looked += 1
            for each in (yield from _in_context(view, context, schema_id, md5)):
                if context == begun and each.row.schema_id <= passed_id:
                    continue
                if len(found) >= most or characters >= CHARACTERS_MAX:
                    return _Page(found, last)
                found.append((yield from _with_uses(view, each)))
                characters += len(each.row.schema)
                last = f"{context}:{each.row.schema_id}"
            last = context
        return _Page(found, None)

    return PendingSearch(search, lambda _, page: _answer(page))


def _id_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise e.UNPROCESSABLE("id is not a number")
    return int(text)


def _in_context(
    view: View, context: str, schema_id: int | None, md5: bytes | None
) -> Search[list[Registered]]:
    """Search for the schema with the id, or with the guid under each of its ids."""
    if schema_id is not None:
        found = yield from first(versions.walk_of_id(view, context, schema_id))
        return [] if found is None else [found]
    by_id: dict[int, Registered] = {}
    assert md5 is not None
    for each in versions.of_content(view, context, md5):
        yield
        by_id.setdefault(each.row.schema_id, each)
    return [by_id[each] for each in sorted(by_id)]


def _with_uses(view: View, found: Registered) -> Search[_Found]:
    uses: list[Registered] = []
    context, schema_id = found.subject.context, found.row.schema_id
    for each in lists.versions_of_id(view, context, schema_id, deleted=True):
        yield
        if each is not None:
            if len(uses) == USES_MAX:
                return _Found(found, uses, more=True)
            uses.append(each.found)
    return _Found(found, uses, more=False)


def _answer(page: _Page) -> Answer:
    schemas = [orjson.Fragment(_entity(each)) for each in page.schemas]
    return json_answer({"schemas": schemas, "next": page.after})


def _entity(each: _Found) -> bytes:
    row, named = each.found.row, [_use(use) for use in each.uses]
    place = {"context": each.found.subject.context, "id": row.schema_id}
    tail = orjson.dumps({**place, "versions": named, "more": each.more})
    # Without the time of one version, which is not that of the schema.
    return entities.schema_string(row, named=False).removesuffix(row.tail) + b"," + tail[1:]


def _use(each: Registered) -> dict[str, Any]:
    return {"subject": each.subject.qualified, "version": each.version, "deleted": each.row.deleted}


OPERATIONS = (
    Operation(
        method="GET",
        path="/schemas/lookup",
        summary="The schemas with an id in any context, or with a guid, and the versions that use them",
        permission=SHOWN,
        handler=look_up,
        response_schema="LookedUp",
        parameters=(
            word("id", "The id"),
            word("guid", "The guid, instead of an id"),
            word("context", "Only this context: name, .name or :.name:; empty: all"),
            number("limit", f"Maximum number of schemas, at most {SCHEMAS_MAX}", 20),
            word("after", "The next page: what the one before says as next"),
        ),
        errors=(e.UNPROCESSABLE,),
    ),
)
