"""Compatibility checks; nothing is written."""

from __future__ import annotations

from registry.domain import errors as e
from registry.domain.compatibility import checks
from registry.domain.parsing.querying import Querying
from registry.domain.queries import by_subject
from registry.domain.rows.view import View

from .answers import Answer, plain_answer
from .bodies import schema_request
from .operations import BODY_ERRORS, Call, Operation
from .parameters import NORMALIZE, VERBOSE


def check_version(call: Call, view: View) -> Querying[Answer]:
    """``POST /compatibility/subjects/{subject}/versions/{version}``."""
    return _check(call, view, by_subject.parse_version(call.path["version"]))


def check_all(call: Call, view: View) -> Querying[Answer]:
    """``POST /compatibility/subjects/{subject}/versions``: against the versions that the level names."""
    return _check(call, view, None)


def _check(call: Call, view: View, number: int | None) -> Querying[Answer]:
    request = schema_request(call.body, call.subject.qualified, normalize=call.args["normalize"])
    defaults, verbose = call.settings.defaults, call.args["verbose"]
    body = yield from checks.answer(
        view, call.memory, request, number, defaults, verbose=verbose, plain=call.plain
    )
    return plain_answer(body) if call.plain else Answer(body)


OPERATIONS = (
    Operation(
        method="POST",
        path="/compatibility/subjects/{subject}/versions/{version}",
        summary="Whether a schema is compatible with one version",
        handler=check_version,
        takes="RegisterSchemaRequest",
        gives="CompatibilityCheckResponse",
        parameters=(NORMALIZE, VERBOSE),
        plain=True,
        errors=(e.INVALID_VERSION, e.VERSION_NOT_FOUND, e.INVALID_SCHEMA, *BODY_ERRORS),
    ),
    Operation(
        method="POST",
        path="/compatibility/subjects/{subject}/versions",
        summary="Whether a schema is compatible with the versions that the level names",
        handler=check_all,
        takes="RegisterSchemaRequest",
        gives="CompatibilityCheckResponse",
        parameters=(NORMALIZE, VERBOSE),
        plain=True,
        errors=(e.INVALID_SCHEMA, *BODY_ERRORS),
    ),
)
