"""``GET /subjects/{subject}/versions/latest`` before any routing: the plain cases, spliced from one row.

A case is plain when the subject's highest version is not soft-deleted, no alias leads elsewhere, and no other
form of the schema is asked for. Everything else is left to the application, which would give the same answer
in every case.
"""

from __future__ import annotations

from typing import NamedTuple

from registry.api.byte_cache import remembered
from registry.api.request_target import parse
from registry.domain.errors import RegistryError
from registry.domain.model import Subject
from registry.domain.queries import entities
from registry.domain.rows import layout
from registry.domain.rows.layout import VersionRow, View

_PATH_BYTES_MAX = 1024
_TAIL = ("versions", "latest")


class _Place(NamedTuple):
    """Where a subject's rows are."""

    config: bytes
    versions: bytes
    after: bytes
    """What sorts behind all its versions."""


def latest(view: View, path: bytes, query: bytes) -> bytes | None:
    """The body of the answer, or ``None`` when this is not a plain case. Two reads.

    ``path`` and ``query`` are raw, as they stand in the request line. The caller has seen that the method is
    GET, that ``Content-Type`` and ``Accept`` are among those served (:mod:`.media_types`), that the request
    has neither ``If-None-Match`` nor ``X-Registry-Min-Offset``, and that the rows are as new as they must be.
    """
    place = None if query else _place(path)
    if place is None or view.get(place.config) is not None:
        return None
    row = view.seek_back(place.after)
    if row is None or not row[0].startswith(place.versions) or layout.is_deleted(row[1]):
        return None
    return entities.schema_entity(VersionRow.unpack(row[1]))


def is_latest(path: bytes) -> bool:
    """Whether :func:`latest` might answer."""
    return path.endswith(b"/versions/latest") and _place(path) is not None


@remembered(bytes_max=32 * 1024 * 1024, key_bytes_max=_PATH_BYTES_MAX, value_bytes=1536)
def _place(path: bytes) -> _Place | None:
    if len(path) > _PATH_BYTES_MAX:
        return None
    try:
        segments = parse(path, b"").segments
    except RegistryError:
        return None
    if len(segments) != 4 or segments[0] != "subjects" or segments[2:] != _TAIL:
        return None
    subject = Subject.parse(segments[1])
    versions = layout.scope_key(layout.VERSION, subject)
    return _Place(layout.scope_key(layout.CONFIG, subject), versions, layout.after(versions))
