"""The timeline of a subject, and the differences between the fields of two schemas."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from registry.domain import errors as e
from registry.domain.commands import Register
from registry.domain.compatibility.timeline import TimelinePage, TimelineVersion, find_page, find_successions
from registry.domain.events import Event, Kind
from registry.domain.history.moment import event_at
from registry.domain.model import Subject
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source, Succession
from registry.domain.queries import by_subject, entities
from registry.domain.queries.scope import effective_config
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import History, View
from registry.domain.schemas import FORMATS, InvalidSchema
from registry.domain.schemas.explaining import cut
from registry.domain.schemas.fields import FIELDS_MAX, TAGS_MAX, TYPE_MAX, field_members
from registry.security.gate import Permission

from .answers import Answer, json_answer
from .json_input import document, required_members, text
from .operations import BODY_ERRORS, Call, Freshness, Operation, PendingSearch
from .parameters import DELETED, limit, number
from .past import PAST, PAST_ERRORS
from .permissions import SHOWN, on_subject

LIMIT_MAX: Final = 100


class _Found(NamedTuple):
    """A page, and the event behind each of its versions, as far as the history has it."""

    page: TimelinePage
    events: list[Event | None]


def list_timeline(call: Call, view: View) -> PendingSearch[_Found]:
    """Return a page of versions, the newest first, with the change of each from the one below it."""
    below: int = call.args["below"]
    if below < 0:
        raise e.UNPROCESSABLE("below must not be negative")
    most, deleted = limit(call.args, LIMIT_MAX), call.args["deleted"]

    def search(view: View) -> Search[_Found]:
        yield from by_subject.require(view, call.subject, deleted=deleted)
        how = {"deleted": deleted, "strict": call.strict_references}
        page = yield from find_page(view, call.subject, below or None, most, **how)
        history = view.history() if call.settings.history else None
        return _Found(page, [_event(history, call.subject, each.found) for each in page.versions])

    def answer(view: View, found: _Found) -> Querying[Answer]:
        config = effective_config(view, call.place, call.settings.defaults)
        successions = yield from find_successions(found.page, config)
        rows = zip(found.page.pairs(), found.events, successions, strict=True)
        body = {
            "subject": call.subject.qualified,
            "compatibilityLevel": config.compatibility_level,
            "versions": [_members(*pair, event, succession) for pair, event, succession in rows],
            "next": None if found.page.following is None else found.page.versions[-1].found.version,
        }
        return json_answer(body)

    return PendingSearch(search, answer)


def _event(history: History | None, subject: Subject, found: Registered) -> Event | None:
    event = None if history is None else event_at(history, subject, found.row.offset)
    # One of another version belongs to a log that was cut since.
    return event if event is not None and event.version == found.version else None


_ACTORS: Final = {Kind.VERSION_REGISTERED: "principal", Kind.VERSION_SOFT_DELETED: "deletedBy"}


def _members(
    each: TimelineVersion, previous: TimelineVersion | None, event: Event | None, found: Succession
) -> dict[str, Any]:
    row = each.found.row
    kind = entities.schema_type(row)
    shown: dict[str, Any] = {
        "version": each.found.version,
        "id": row.schema_id,
        "schemaType": kind,
        "ts": row.ts,
        "deleted": row.deleted,
    }
    if event is not None and event.principal is not None and event.kind in _ACTORS:
        shown[_ACTORS[event.kind]] = event.principal
    if previous is not None:
        shown["previous"] = previous.found.version
        if (before := entities.schema_type(previous.found.row)) != kind:
            shown["previousType"] = before
    if found.counts is not None:
        shown |= found.counts._asdict()
    if found.compatible is not None:
        shown["compatible"] = found.compatible
    if tags := _tags(each, found):
        shown["tags"] = tags
    for name, many in (("rules", _rules(row)), ("references", len(entities.references(row)))):
        if many:
            shown[name] = many
    return shown


def _rules(row: VersionRow) -> int:
    found = entities.rule_set(row)
    if found is None:
        return 0
    return sum(len(each or ()) for each in (found.migration_rules, found.domain_rules, found.encoding_rules))


def _tags(each: TimelineVersion, found: Succession) -> list[str]:
    """Return the names of the tags in the schema and in its metadata."""
    meta = entities.metadata(each.found.row)
    own = (tag for tags in ((meta.tags if meta else None) or {}).values() for tag in tags)
    return [cut(each, TYPE_MAX) for each in sorted({*found.tags, *own})[:TAGS_MAX]]


# Fields that differ and are shown.
DIFFERENCES_MAX: Final = 1_000


def compare_fields(call: Call, view: View) -> Querying[Answer]:
    """``POST /schemas/differences``: of any two types; what a schema refers to is not looked at."""
    body = document(call.body)
    old, new = (_source(body, name) for name in ("old", "new"))
    return (yield from answer_differences(old, new))


def answer_differences(old: Source, new: Source) -> Querying[Answer]:
    """Return the fields that differ between two schemas. Raises 42201 and 422."""
    try:
        found = yield from querying.field_differences(new, old, DIFFERENCES_MAX)
    except InvalidSchema as error:
        raise e.INVALID_SCHEMA(f"The fields of one of the schemas cannot be read: {error}") from None
    if found is None:
        raise e.UNPROCESSABLE(f"One of the schemas has more than {FIELDS_MAX} fields and types")
    pairs = (zip(("old", "new"), each, strict=True) for each in found.first)
    listed = [{side: field_members(each) for side, each in pair if each is not None} for pair in pairs]
    return json_answer({**found.counts._asdict(), "differences": listed})


def _source(body: dict[str, Any], name: str) -> Source:
    side = required_members(body.get(name), name)
    schema, kind = (text(side.get(each), f"{name}.{each}") for each in ("schema", "schemaType"))
    request = Register("", schema or "", kind)
    if request.type_name not in FORMATS:
        raise e.INVALID_SCHEMA(f"Invalid schema type {request.type_name}")
    return Source(request.type_name, request.schema)


OPERATIONS = (
    Operation(
        method="POST",
        path="/schemas/differences",
        summary="The fields that differ between two schemas, which may have different types",
        permission=SHOWN,
        handler=compare_fields,
        freshness=Freshness.NEVER,
        request_schema="ComparedSchemas",
        needs_json=True,
        response_schema="FieldDifferences",
        errors=(e.INVALID_SCHEMA, *BODY_ERRORS),
    ),
    Operation(
        method="GET",
        path="/subjects/{subject}/timeline",
        summary="The versions of a subject, newest first, each with what it changes of the one below it",
        permission=on_subject(Permission.READ),
        handler=list_timeline,
        response_schema="Timeline",
        parameters=(
            DELETED,
            number("below", "Only versions below this number; 0: all", 0),
            number("limit", f"Maximum number of versions, at most {LIMIT_MAX}", 20),
            *PAST,
        ),
        errors=(e.SUBJECT_NOT_FOUND, e.UNPROCESSABLE, *PAST_ERRORS),
    ),
)
