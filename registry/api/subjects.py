"""Subjects and their versions."""

from __future__ import annotations

from typing import Any

import msgspec

from registry.domain import entities, lookup, queries, references
from registry.domain.commands import Command, DeleteSubject, DeleteVersion, Register
from registry.domain.decide.decision import check_subject
from registry.domain.metadata import tidy_rules
from registry.domain.rows import VersionRow, View
from registry.domain.schemas import FORMATS, InvalidSchema
from registry.domain.versions import Registered

from .answers import Answer, json_answer
from .bodies import schema_request
from .operations import Call
from .parameters import LIST_MAX, page


def list_subjects(call: Call, view: View) -> Answer:
    """``GET /subjects``."""
    deleted, only = call.args["deleted"], call.args["deletedOnly"]
    names = queries.subjects(view, call.args["subjectPrefix"], deleted=deleted, deleted_only=only)
    return json_answer(names[page(call.args)])


def delete_subject(call: Call, view: View) -> Command:
    """``DELETE /subjects/{subject}``."""
    return DeleteSubject(call.subject.qualified, call.args["permanent"])


def list_versions(call: Call, view: View) -> Answer:
    """``GET /subjects/{subject}/versions``."""
    numbers = queries.version_numbers(
        view,
        call.subject,
        deleted=call.args["deleted"],
        deleted_only=call.args["deletedOnly"],
        deleted_as_negative=call.args["deletedAsNegative"],
    )
    return json_answer(numbers[page(call.args)])


def get_version(call: Call, view: View) -> Answer:
    """``GET /subjects/{subject}/versions/{version}``."""
    found = _version(call, view)
    row = _formatted(call, view, found)
    if call.args["referenceFormat"] == "qualified":
        row = entities.with_qualified_references(row, found.subject.context)
    return Answer(entities.schema_entity(row))


def get_version_text(call: Call, view: View) -> Answer:
    """``GET /subjects/{subject}/versions/{version}/schema``: the bare text."""
    return Answer(entities.text(_formatted(call, view, _version(call, view))).encode())


def delete_version(call: Call, view: View) -> Command:
    """``DELETE /subjects/{subject}/versions/{version}``."""
    number = queries.parse_version(call.path["version"])
    return DeleteVersion(call.subject.qualified, number, call.args["permanent"])


def find_by_metadata(call: Call, view: View) -> Answer:
    """``GET /subjects/{subject}/metadata``."""
    wanted = zip(call.args["key"], call.args["value"], strict=False)
    found = queries.version_with_metadata(view, call.subject, wanted, deleted=call.args["deleted"])
    return Answer(entities.schema_entity(_formatted(call, view, found)))


def list_referrers(call: Call, view: View) -> Answer:
    """``GET /subjects/{subject}/versions/{version}/referencedby``; the version itself may be soft-deleted."""
    number = queries.parse_version(call.path["version"])
    found = queries.version_of(view, call.subject, number, deleted=True)
    ids = references.referrer_ids(view, found.subject, found.version, deleted=call.args["deleted"])
    return json_answer(ids[page(call.args, LIST_MAX)])


def _version(call: Call, view: View) -> Registered:
    number = queries.parse_version(call.path["version"])
    return queries.version_anywhere(view, call.subject, number, deleted=call.args["deleted"])


def _formatted(call: Call, view: View, found: Registered) -> VersionRow:
    return call.parser.formatted(view, found, call.args["format"])


def look_up(call: Call, view: View) -> Answer:
    """``POST /subjects/{subject}``."""
    request = _request(call)
    settings, deleted = call.settings.defaults, call.args["deleted"]
    return Answer(lookup.lookup(view, call.parser, request, settings, deleted=deleted))


def register(call: Call, view: View) -> Answer | Command:
    """``POST /subjects/{subject}/versions``: answered here when the schema is registered already."""
    defaults = call.settings.defaults
    request = _request(call, force=call.args["force"])
    tidy_rules(request.rule_set)
    check_subject(call.subject, request.subject, reject_empty=defaults.reject_empty_subject)
    request = _parsed(call, request)
    reply = lookup.already_registered(view, call.parser, request, defaults)
    return request if reply is None else Answer(reply)


def _request(call: Call, **options: Any) -> Register:
    wanted = {"normalize": call.args["normalize"], "format": call.args["format"], **options}
    return schema_request(call.body, call.subject.qualified, **wanted)


def _parsed(call: Call, request: Register) -> Register:
    """The request with its canonical text, so that the primary need not parse it again.

    Left as it is where other schemas are needed for that, or where it is no valid new schema: then what to
    answer is the primary's to say.
    """
    schema_type = "AVRO" if request.schema_type is None else request.schema_type
    if request.references or not request.schema.strip() or schema_type not in FORMATS:
        return request
    try:
        schema = call.parser.parse(schema_type, request.schema, new=True)
    except InvalidSchema:
        return request
    return msgspec.structs.replace(request, schema=schema.canonical, canonical=True)
