"""Conversion of stored versions to schema sources."""

from __future__ import annotations

from registry.domain import errors
from registry.domain.queries import entities
from registry.domain.queries.versions import Registered
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View
from registry.domain.schemas import FORMATS, InvalidSchema

from . import querying, references
from .querying import Querying
from .schema_queries import Source


def source_of(view: View, registered: Registered) -> Source:
    """Return the source of a stored version.

    Raises :class:`InvalidSchema` if a reference no longer exists or its type is not served.
    """
    row = registered.row
    listed = entities.references(row)
    _, dependencies = references.resolve(view, registered.subject, listed, deleted=True)
    source = Source(entities.schema_type(row), entities.text(row), tuple(dependencies))
    if source.schema_type not in FORMATS:
        raise InvalidSchema(f"Invalid schema type {source.schema_type}")
    return source


def formatted(view: View, registered: Registered, wanted: str) -> Querying[VersionRow]:
    """Return the version's row with its text in a ``format`` of the API. Raises 42201."""
    row = registered.row
    if wanted.lower() in ("", "default") or entities.schema_type(row) not in FORMATS:
        return row
    try:
        text = yield from querying.formatted(source_of(view, registered), wanted)
    except InvalidSchema as error:
        raise errors.INVALID_SCHEMA(str(error)) from None
    return entities.with_text(row, text)
