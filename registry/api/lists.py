"""The lists of schemas and subjects, the types of schemas, and the use of ids in each context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import orjson

from registry.domain import errors as e
from registry.domain.commands import Command, ReleaseIds
from registry.domain.decide.decision import check_subject
from registry.domain.lookup.search import KINDS
from registry.domain.model import DEFAULT_CONTEXT, ID_MAX, Subject
from registry.domain.queries import entities, lists, subject_list, versions
from registry.domain.queries.associations import AssociationRules
from registry.domain.queries.id_space import IdUsage, id_space, id_usage
from registry.domain.queries.lists import Listed
from registry.domain.queries.subject_ids import Place
from registry.domain.queries.subject_list import SORTS, Details, SubjectList
from registry.domain.queries.versions import Registered
from registry.domain.rows.view import Skip, View
from registry.domain.schemas import FORMATS

from .answers import Answer, json_answer
from .json_input import document, integer, text
from .listing import Listing, Mark
from .operations import BODY_ERRORS, WRITE_ERRORS, Call, Freshness, Operation, PendingSearch
from .paging import page
from .parameters import (
    ASSOCIATED,
    CONTEXT_PREFIX,
    DELETED,
    DELETED_ONLY,
    LIST_MAX,
    PAGE,
    association_filter,
    flag,
    word,
    words,
)
from .permissions import ADMINS, OPEN, SHOWN
from .search import WordOwners, Words, find_owners, wanted_kinds, wanted_words


def list_schemas(call: Call, view: View) -> Listing[Listed]:
    """``GET /schemas``."""
    args = call.args
    chosen = lists.Schemas(
        args["subjectPrefix"],
        args["deleted"],
        args["latestOnly"],
        args["ruleType"],
        args["aliases"],
        association_filter(args),
    )

    def walk(view: View, mark: tuple[str, int] | None, skip: Skip | None = None) -> Iterator[Listed | None]:
        return chosen.walk(view, (Subject.parse(mark[0]), mark[1]) if mark else None, skip)

    printed = partial(_print_item, rules=call.settings.defaults.association_rules)
    return page(
        call,
        walk,
        printed,
        lambda each: _version_mark(each.found),
        (str, int),
        limit_max=LIST_MAX,
        skipping=walk,
    )


def _print_item(each: Listed, rules: AssociationRules) -> bytes:
    aliases = b',"aliases":' + orjson.dumps(each.aliases) if each.aliases else b""
    tail = aliases + entities.tail_of(each.associations, rules)
    return entities.schema_entity(each.found.row, tail=tail)


def _version_mark(found: Registered) -> tuple[str, int]:
    return found.subject.qualified, found.version


def list_types(call: Call, view: View) -> Answer:
    """``GET /schemas/types``: the formats that can be registered."""
    return json_answer([*FORMATS])


SCHEMA_OPERATIONS = (
    Operation(
        method="GET",
        path="/schemas",
        summary="List schemas by subject and version",
        permission=SHOWN,
        handler=list_schemas,
        response_schema="Schemas",
        parameters=(
            word("subjectPrefix", "Prefix of the qualified name; empty: the default context"),
            flag("aliases", "Include the subjects that aliases refer to"),
            DELETED,
            flag("latestOnly", "Only the latest version of each subject"),
            word("ruleType", "Only schemas with a rule of this type"),
            *ASSOCIATED,
            *PAGE,
        ),
    ),
    Operation(
        method="GET",
        path="/schemas/types",
        summary="The schema types that can be registered",
        permission=OPEN,
        handler=list_types,
        response_schema="Names",
        freshness=Freshness.NEVER,
    ),
)


PATH = "/admin/ids"


def list_usage(call: Call, view: View) -> Listing[IdUsage]:
    """``GET /admin/ids``: by context, the default one first."""
    prefix = call.args["contextPrefix"]

    def walk(view: View, mark: tuple[str] | None) -> Iterator[IdUsage | None]:
        for context in versions.contexts(view, prefix, mark[0] if mark else None):
            yield None if context is None else id_usage(view, context, id_space(view, context))

    return page(call, walk, msgspec.json.encode, lambda each: (each.context,), (str,))


def release(call: Call, view: View) -> Command:
    """``POST /admin/ids/release``. Raises 422, and 42208 for names that no context can have."""
    body = document(call.body)
    context = text(body.get("context"), "context") or DEFAULT_CONTEXT
    if not context.startswith(".") or ":" in context:
        raise e.UNPROCESSABLE("context must be a context's name, which starts with a dot")
    check_subject(Subject(context, ""), context)
    first, last = integer(body.get("from"), "from"), integer(body.get("to"), "to")
    last = ID_MAX if last is None else last
    if first is None or not 1 <= first <= last <= ID_MAX:
        raise e.UNPROCESSABLE(f"from and to must be ids, 1 <= from <= to <= {ID_MAX}")
    return ReleaseIds(context, first, last)


ID_OPERATIONS = (
    Operation(
        method="GET",
        path=PATH,
        summary="The use of ids in each context",
        permission=ADMINS,
        sees_all=True,
        handler=list_usage,
        response_schema="IdUsages",
        parameters=(CONTEXT_PREFIX, *PAGE),
    ),
    Operation(
        method="POST",
        path=f"{PATH}/release",
        summary="Release reserved ids that no version has, for use by new schemas",
        permission=ADMINS,
        handler=release,
        freshness=Freshness.NEVER,
        request_schema="IdRelease",
        response_schema="IdUsage",
        errors=(e.ID_IN_USE, e.INVALID_SUBJECT, *WRITE_ERRORS, *BODY_ERRORS),
    ),
)


DETAILS_MAX = 1000  # subjects with details in one page
NAMED_MAX = 200  # subjects that one request can name
QUERY = word("query", "Only subjects in which all these words are found, as by /search")
KIND = words("kind", f"With query: where to look: {', '.join(KINDS)}; by default everywhere")
FILTERS = (
    word("schemaType", "Only subjects whose latest version has this type"),
    word("compatibilityLevel", "Only subjects with this effective compatibility level"),
    word("mode", "Only subjects with this effective mode"),
    QUERY,
    KIND,
    words("subject", "With detail: only this subject, by its qualified name"),
)
SORT = word(
    "sort",
    "name; id: by context and the latest version's id; -name and -id: in reverse, so -id lists the "
    "newest schemas of each context first",
    SORTS[0],
)
CUT = (b"warning", b'299 - "There may be more subjects with these words; use more words, or longer ones"')
_KINDS: dict[bool, tuple[type, ...]] = {False: (str,), True: (str, int, int, int)}


def list_subjects(index: Words | None, call: Call) -> Listing[Any] | PendingSearch[WordOwners]:
    """``GET /subjects``: names, or with ``detail`` an object each."""
    args = call.args
    if args[SORT.name] not in SORTS:
        raise e.UNPROCESSABLE(f"sort must be one of {', '.join(SORTS)}")
    if args["subject"] and not args["detail"]:
        raise e.UNPROCESSABLE("subject needs detail=true")
    if len(args["subject"]) > NAMED_MAX:
        raise e.UNPROCESSABLE(f"more than {NAMED_MAX} subjects are named; ask for them in several requests")
    if args["subject"] and args[SORT.name] != SORT.default:
        raise e.UNPROCESSABLE("subjects that are named come in the order of the request; leave out sort")
    chosen = subject_list.Filter(
        SubjectList(args["subjectPrefix"], args["deleted"], args["deletedOnly"], args[SORT.name]),
        args["schemaType"].upper(),
        args["compatibilityLevel"].upper(),
        args["mode"].upper(),
        tuple(dict.fromkeys(map(Subject.parse, args["subject"]))),
    )
    if not args[QUERY.name]:
        if args[KIND.name]:
            raise e.UNPROCESSABLE("kind needs a query")
        return _listing(call, chosen)
    if index is None:
        raise e.SEARCH_OFF()
    query, kinds = wanted_words(args[QUERY.name]), wanted_kinds(args[KIND.name])

    return PendingSearch(
        lambda _: find_owners(index, query, kinds),
        lambda _, found: _listing_of_words(call, chosen, found),
    )


def _listing_of_words(call: Call, chosen: subject_list.Filter, found: WordOwners) -> Listing[Any]:
    listing = _listing(call, chosen._replace(owners=found.owners))
    return replace(listing, headers=(*listing.headers, CUT)) if found.cut else listing


def _listing(call: Call, chosen: subject_list.Filter) -> Listing[Any]:
    defaults, kinds = call.settings.defaults, _KINDS[chosen.subjects.by_id]

    def walk(view: View, mark: Mark | None, skip: Skip | None = None) -> Iterator[Subject | Place | None]:
        return chosen.walk(view, defaults, _item(mark), skip)

    def walk_details(view: View, mark: Mark | None, skip: Skip | None = None) -> Iterator[Details | None]:
        return chosen.walk_details(view, defaults, _item(mark), skip)

    def print_name(each: Subject | Place) -> bytes:
        return orjson.dumps(each.qualified)

    def print_details(each: Details) -> bytes:
        assert each.found is not None  # only skipped ones have no details, and they are not printed
        return each.found.print_json()

    if not call.args["detail"]:
        return page(call, walk, print_name, _mark, kinds, skipping=walk)
    return page(
        call,
        walk_details,
        print_details,
        lambda each: _mark(each.item),
        kinds,
        limit_max=DETAILS_MAX,
        skipping=walk_details,
    )


def _mark(item: Subject | Place) -> Mark:
    if isinstance(item, Place):
        return item.qualified, item.schema_id, item.offset, item.version
    return (item.qualified,)


def _item(mark: Mark | None) -> Subject | Place | None:
    """Return the item that has a mark, the one before a page."""
    if mark is None:
        return None
    subject = Subject.parse(mark[0])
    return Place(subject, *mark[1:]) if mark[1:] else subject


def subject_operations(index: Words | None) -> tuple[Operation, ...]:
    """Return the list of subjects; ``index`` has the words of queries, ``None`` where none is kept."""
    return (
        Operation(
            method="GET",
            path="/subjects",
            summary="List the subjects of all contexts, sorted",
            permission=SHOWN,
            handler=lambda call, _: list_subjects(index, call),
            response_schema="Subjects",
            parameters=(
                word("subjectPrefix", "Prefix of the qualified name", ":*:"),
                DELETED,
                DELETED_ONLY,
                SORT,
                flag("detail", "An object for each subject, with its latest version, counts, level and mode"),
                *FILTERS,
                *PAGE,
            ),
            errors=(e.UNPROCESSABLE, e.SEARCH_OFF, e.INDEX_INCOMPLETE),
        ),
    )
