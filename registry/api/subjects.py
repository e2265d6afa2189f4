"""Subjects and their versions."""

from __future__ import annotations

from typing import Any

import orjson

from registry.domain import entities, lookup, queries, references
from registry.domain.commands import Command, DeleteSubject, DeleteVersion, Register
from registry.domain.rows import VersionRow, View

from .answers import Answer, json_answer
from .bodies import SchemaRequest, schema_request
from .operations import Call
from .parameters import page

SCHEMA_PAGE_MAX = 1000


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
