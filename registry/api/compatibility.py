"""Compatibility checks; nothing is written."""

from __future__ import annotations

from registry.domain import compatibility, queries
from registry.domain.rows import View

from .answers import Answer
from .bodies import schema_request
from .operations import Call


def check_version(call: Call, view: View) -> Answer:
    """``POST /compatibility/subjects/{subject}/versions/{version}``."""
    return _check(call, view, queries.parse_version(call.path["version"]))


def check_all(call: Call, view: View) -> Answer:
    """``POST /compatibility/subjects/{subject}/versions``: against the versions that the level names."""
    return _check(call, view, None)


def _check(call: Call, view: View, number: int | None) -> Answer:
    request = schema_request(call.body, call.subject.qualified, normalize=call.args["normalize"])
    defaults, verbose = call.settings.defaults, call.args["verbose"]
    return Answer(compatibility.answer(view, call.parser, request, number, defaults, verbose=verbose))
