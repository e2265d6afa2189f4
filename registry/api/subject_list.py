"""The list of subjects: their names, or all that a table shows of them, in several orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from registry.domain import errors as e
from registry.domain.model import Subject
from registry.domain.queries import subject_list
from registry.domain.queries.subject_ids import Place
from registry.domain.queries.subject_list import SORTS, Details, SubjectList
from registry.domain.rows.view import Skip, View

from .listing import Listing, Mark
from .operations import Call, Operation
from .paging import page
from .parameters import DELETED, DELETED_ONLY, PAGE, flag, word, words
from .permissions import SHOWN

DETAILS_MAX = 1000  # subjects with details in one page
NAMED_MAX = 200  # subjects that one request can name
DETAIL_FILTERS = (
    word("schemaType", "With detail: only subjects whose latest version has this type"),
    word("compatibilityLevel", "With detail: only subjects with this effective compatibility level"),
    word("mode", "With detail: only subjects with this effective mode"),
    words("subject", "With detail: only this subject, by its qualified name"),
)
SORT = word(
    "sort",
    "name; id: by context and the latest version's id; -name and -id: in reverse, so -id lists the "
    "newest schemas of each context first",
    SORTS[0],
)
_KINDS: dict[bool, tuple[type, ...]] = {False: (str,), True: (str, int, int, int)}


def list_subjects(call: Call, view: View) -> Listing[Any]:
    """``GET /subjects``: names, or with ``detail`` an object each."""
    args = call.args
    if args[SORT.name] not in SORTS:
        raise e.UNPROCESSABLE(f"sort must be one of {', '.join(SORTS)}")
    wanted = SubjectList(args["subjectPrefix"], args["deleted"], args["deletedOnly"], args[SORT.name])
    if args["detail"]:
        return _with_details(call, wanted)
    if any(args[each.name] for each in DETAIL_FILTERS):
        raise e.UNPROCESSABLE("schemaType, compatibilityLevel, mode and subject need detail=true")

    def walk(view: View, mark: Mark | None, skip: Skip | None = None) -> Iterator[Subject | Place | None]:
        return wanted.walk(view, _item(mark), skip)

    def printed(each: Subject | Place) -> bytes:
        return orjson.dumps(each.qualified)

    return page(call, walk, printed, _mark, _KINDS[wanted.by_id], skipping=walk)


def _with_details(call: Call, wanted: SubjectList) -> Listing[Details]:
    args, defaults = call.args, call.settings.defaults
    if len(args["subject"]) > NAMED_MAX:
        raise e.UNPROCESSABLE(f"more than {NAMED_MAX} subjects are named; ask for them in several requests")
    if args["subject"] and wanted.sort != SORT.default:
        raise e.UNPROCESSABLE("subjects that are named come in the order of the request; leave out sort")
    chosen = subject_list.Filter(
        wanted,
        args["schemaType"].upper(),
        args["compatibilityLevel"].upper(),
        args["mode"].upper(),
        tuple(dict.fromkeys(map(Subject.parse, args["subject"]))),
    )

    def walk(view: View, mark: Mark | None, skip: Skip | None = None) -> Iterator[Details | None]:
        return chosen.walk(view, defaults, _item(mark), skip)

    def printed(each: Details) -> bytes:
        assert each.found is not None  # only skipped ones have no details, and they are not printed
        return each.found.printed()

    return page(
        call,
        walk,
        printed,
        lambda each: _mark(each.item),
        _KINDS[wanted.by_id],
        limit_max=DETAILS_MAX,
        skipping=walk,
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


OPERATIONS = (
    Operation(
        method="GET",
        path="/subjects",
        summary="List the subjects of all contexts, sorted",
        permission=SHOWN,
        handler=list_subjects,
        response_schema="Subjects",
        parameters=(
            word("subjectPrefix", "Prefix of the qualified name", ":*:"),
            DELETED,
            DELETED_ONLY,
            SORT,
            flag("detail", "An object for each subject, with its latest version, counts, level and mode"),
            *DETAIL_FILTERS,
            *PAGE,
        ),
        errors=(e.UNPROCESSABLE,),
    ),
)
