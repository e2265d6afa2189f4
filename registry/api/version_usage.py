"""``/usage``: where versions are in use, as the newest census found, and what nobody can explain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from registry.domain import errors as e
from registry.domain.log_format import usage as stored
from registry.domain.log_format.usage import Census, SourceUse
from registry.domain.lookup import usage
from registry.domain.lookup.usage import Stranger, UsageState, VersionUsage
from registry.domain.model import Subject
from registry.domain.queries import by_subject, lists, scope, versions
from registry.domain.queries.walks import Search
from registry.domain.rows import layout
from registry.domain.rows.view import View
from registry.security.gate import Access, Permission, everywhere_in

from .answers import Answer
from .listing import Listing
from .operations import Call, Operation, PendingSearch
from .paging import page, whole
from .parameters import LIST_MAX, PAGE, SCOPE, flag, path_number, word
from .permissions import ADMINS, SHOWN, on_subject, readable

# Sources and referrers that are listed for one version; all are counted.
SHOWN_MAX = 100


def get_subject(call: Call, view: View) -> PendingSearch[None]:
    """``GET /usage/subjects/{subject}``: all versions, soft-deleted ones included."""
    census = stored.census(view)

    def walk(view: View) -> Iterator[VersionUsage | None]:
        for each in versions.walk(view, call.subject, deleted=True):
            yield (yield from usage.find_usage(view, each)) if each is not None else None

    def print_item(each: VersionUsage) -> bytes:
        return orjson.dumps({"version": each.found.version, **_version_members(call, each, census)})

    head = {"subject": call.subject.qualified, "census": as_of(call, census), "versions": 0}
    listing = whole(walk, print_item, head=orjson.dumps(head)[:-2] + b"[", tail=b"]}")
    return PendingSearch(
        lambda view: by_subject.require(view, call.subject, deleted=True), lambda _, __: listing
    )


def _version_members(call: Call, each: VersionUsage, census: Census | None) -> dict[str, Any]:
    row = each.found.row
    may_read = [use for use in each.referrers if call.access.may(Permission.READ, use.subject)]
    return {
        "id": row.schema_id,
        "guid": str(UUID(bytes=row.md5)),
        "ts": row.ts,
        "deleted": row.deleted,
        "state": each.state(census),
        **_summary(each.uses),
        "referrers": [
            {"subject": use.subject.qualified, "version": use.version} for use in may_read[:SHOWN_MAX]
        ],
        "referrerCount": len(each.referrers),
    }


def _summary(uses: list[SourceUse]) -> dict[str, Any]:
    first = [each.use.first for each in uses if each.use.first >= 0]
    return {
        "messages": sum(each.use.messages for each in uses),
        "first": min(first, default=-1),
        "last": max((each.use.last for each in uses), default=-1),
        "exact": all(each.use.exact for each in uses),
        "sources": [usage.as_members(each) for each in uses[:SHOWN_MAX]],
        "sourceCount": len({each.source for each in uses}),
    }


def as_of(call: Call, census: Census | None) -> dict[str, Any] | None:
    """Return what clients see of the census that an answer is about."""
    if census is None:
        return None
    members = {name: getattr(census, name) for name in ("id", "started", "ended", "complete", "unread")}
    return members | {"usableUntil": census.ended + call.settings.defaults.census_age_max_ms}


def get_schema(call: Call, view: View) -> PendingSearch[VersionUsage | None]:
    """``GET /usage/schemas/{id}``. An unknown id is only shown to those who may read the context."""
    schema_id, name = path_number(call.path["id"]), call.args[SCOPE.name]
    asked = Subject.parse(name)

    def search(view: View) -> Search[VersionUsage | None]:
        place = scope.resolve_alias(view, asked).qualified if name else name
        found = yield from versions.by_id_in_scope(readable(view, call.access), schema_id, place)
        return None if found is None else (yield from usage.find_usage(view, found))

    def answer(view: View, each: VersionUsage | None) -> Answer:
        census, context = stored.census(view), asked.context if each is None else each.found.subject.context
        known = {"id": schema_id, "context": context, "known": each is not None}
        known["census"] = as_of(call, census)
        if each is not None:
            return Answer(orjson.dumps({**known, **_version_members(call, each, census)}))
        uses = list(stored.uses_of(view, context, [schema_id]))
        if not uses or not everywhere_in(call.access, Permission.READ, context):
            raise e.SCHEMA_ID_NOT_FOUND(schema_id)
        return Answer(orjson.dumps({**known, "state": UsageState.USED, **_summary(uses)}))

    return PendingSearch(search, answer)


class SubjectUsage(NamedTuple):
    """A subject and its versions, as the census found them."""

    subject: Subject
    versions: list[VersionUsage]
    has_topic: bool
    deleted_at: list[int]


def list_subjects(call: Call, view: View) -> Listing[SubjectUsage]:
    """``GET /usage/subjects``: how many versions of each subject the data needs, and which it does not."""
    census, only_unused = stored.census(view), call.args["unused"]

    def walk(view: View, mark: tuple[str] | None) -> Iterator[SubjectUsage | None]:
        after = Subject.parse(mark[0]) if mark else None
        shown = readable(view, call.access)
        for subject in lists.subjects(shown, call.args["subjectPrefix"], after, deleted=True):
            found = None if subject is None else (yield from _find_subject(view, subject))
            if found is None or (only_unused and not _unused_versions(found, census)):
                yield None
            else:
                yield found

    def print_item(each: SubjectUsage) -> bytes:
        states = [version.state(census) for version in each.versions]
        uses = [use for version in each.versions for use in version.uses]
        summary = {name: value for name, value in _summary(uses).items() if name != "sources"}
        return orjson.dumps(
            {
                "subject": each.subject.qualified,
                "versions": len(states),
                "latest": max(
                    (v.found.version for v in each.versions if not v.found.row.deleted), default=None
                ),
                **{str(state): states.count(state) for state in UsageState if state is not UsageState.UNUSED},
                **summary,
                "hasTopic": each.has_topic,
                "unused": _unused_versions(each, census),
            }
        )

    return page(call, walk, print_item, lambda each: (each.subject.qualified,), (str,), limit_max=LIST_MAX)


# Subjects that are examined for those with unused versions, where all would take too long.
EXAMINED_MAX: Final = 2000


def find_unused(view: View, access: Access, most: int) -> Search[dict[str, Any]]:
    """Search among the first subjects for those with unused versions; return members for the census."""
    census, found, examined, more = stored.census(view), list[dict[str, Any]](), 0, False
    for subject in lists.subjects(readable(view, access), ":*:", deleted=True):
        if subject is None:
            yield
            continue
        more = len(found) == most or examined == EXAMINED_MAX
        if more:
            break
        examined += 1
        unused = _unused_versions((yield from _find_subject(view, subject)), census)
        if unused:
            found.append({"subject": subject.qualified, "unused": len(unused)})
    return {"unusedSubjects": found, "examined": examined, "more": more}


def _find_subject(view: View, subject: Subject) -> Search[SubjectUsage]:
    found: list[VersionUsage] = []
    for each in versions.walk(view, subject, deleted=True):
        yield
        if each is not None:
            found.append((yield from usage.find_usage(view, each)))
    times = [usage.deleted_at(view, each.found) if each.found.row.deleted else -1 for each in found]
    return SubjectUsage(subject, found, usage.has_topic(view, subject), times)


def _unused_versions(each: SubjectUsage, census: Census | None) -> list[dict[str, Any]]:
    return [
        {
            "version": version.found.version,
            "id": version.found.row.schema_id,
            "ts": version.found.row.ts,
            "deleted": version.found.row.deleted,
            "deletedAt": None if at in (-1, layout.UNKNOWN_TIME) else at,
        }
        for version, at in zip(each.versions, each.deleted_at, strict=True)
        if version.state(census) is UsageState.UNUSED
    ]


def list_strangers(call: Call, view: View) -> Listing[Stranger]:
    """``GET /usage/unknown``: ids that nobody knows, unframed bytes, and topics without a subject."""

    def print_item(each: Stranger) -> bytes:
        use = None if each.use is None else usage.use_members(each.use)
        source = {"source": each.source.source, "context": each.source.context}
        return orjson.dumps({**source, "problem": each.problem, "use": use})

    return page(
        call, usage.walk_unexplained, print_item, lambda each: (each.source.source, each.place), (str, int),
        limit_max=LIST_MAX,
    )  # fmt: skip


OPERATIONS = (
    Operation(
        method="GET",
        path="/usage/subjects",
        summary="How many versions of each subject the data needs, and which are unused",
        permission=SHOWN,
        sees_all=True,
        handler=list_subjects,
        response_schema="SubjectUsages",
        parameters=(
            word("subjectPrefix", "Prefix of the qualified name", ":*:"),
            flag("unused", "Only subjects with unused versions"),
            *PAGE,
        ),
        errors=(e.UNPROCESSABLE,),
    ),
    Operation(
        method="GET",
        path="/usage/subjects/{subject}",
        summary="Where each version of a subject is in use, by the newest census",
        permission=on_subject(Permission.READ),
        sees_all=True,
        handler=get_subject,
        response_schema="SubjectVersionUsage",
        errors=(e.SUBJECT_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/usage/schemas/{id}",
        summary="Where a schema is in use, by its id, also one that the registry does not know",
        permission=SHOWN,
        sees_all=True,
        handler=get_schema,
        response_schema="SchemaUsage",
        parameters=(SCOPE,),
        errors=(e.SCHEMA_ID_NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path="/usage/unknown",
        summary="Messages whose ids nobody knows or that name none, and topics without a subject",
        permission=ADMINS,
        sees_all=True,
        handler=list_strangers,
        response_schema="UnknownUses",
        parameters=PAGE,
        errors=(e.UNPROCESSABLE,),
    ),
)
