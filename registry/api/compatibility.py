"""Compatibility checks; nothing is written."""

from __future__ import annotations

from registry.domain import queries
from registry.domain.errors import RegistryError
from registry.domain.rows import View

from .answers import Answer, json_answer
from .bodies import schema_request
from .operations import Call


def check_version(call: Call, view: View) -> Answer:
    """``POST /compatibility/subjects/{subject}/versions/{version}``."""
    return _check(call, view, queries.parse_version(call.path["version"]))


def check_all(call: Call, view: View) -> Answer:
    """``POST /compatibility/subjects/{subject}/versions``."""
    return _check(call, view, None)


def _check(call: Call, view: View, version: int | None) -> Answer:
    raise NotImplementedError
