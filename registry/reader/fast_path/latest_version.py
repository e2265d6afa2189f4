"""Fast path of ``GET /subjects/{subject}/versions/latest``: plain cases, spliced from one row.

A case is plain if the subject's highest version is not soft-deleted, the subject has no config that could be
an alias, and no other format is requested. All others are left to the application, which would give the same
answers in plain cases too.
"""

from __future__ import annotations

from typing import NamedTuple

from registry.api.request_target import parse, remembered
from registry.domain.errors import RegistryError
from registry.domain.model import Subject
from registry.domain.queries import entities
from registry.domain.rows import layout, version_row
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View
from registry.security.access import FULL_ACCESS, Access, Permission

_PATH_BYTES_MAX = 1024
_TAIL = ("versions", "latest")


class _Keys(NamedTuple):
    """A subject and the keys of its rows."""

    subject: Subject
    config: bytes
    versions: bytes
    after: bytes  # sorts behind all its versions


def latest_version(view: View, path: bytes, query: bytes, access: Access = FULL_ACCESS) -> bytes | None:
    """Return the body of the answer, or ``None`` if this is not a plain case. Takes two reads.

    ``path`` and ``query`` are raw, as in the request line. The caller has checked that the method is GET,
    that ``Content-Type`` and ``Accept`` are supported (:mod:`registry.api.media_types`), that the request has
    neither ``If-None-Match`` nor ``X-Registry-Min-Offset``, and that the rows are as new as required.
    ``access``: of the principal that sent the request.
    """
    keys = None if query else _keys(path)
    # A subject without a config has no alias, so it is the only one that has to be permitted.
    if keys is None or not access.may(Permission.READ, keys.subject) or view.get(keys.config) is not None:
        return None
    row = view.seek_back(keys.after)
    if row is None or not row[0].startswith(keys.versions) or version_row.is_deleted(row[1]):
        return None
    return entities.schema_entity(VersionRow.unpack(row[1]))


def is_latest(path: bytes) -> bool:
    """Return true if :func:`latest_version` might answer."""
    return path.endswith(b"/versions/latest") and _keys(path) is not None


@remembered(bytes_max=32 * 1024 * 1024, key_bytes_max=_PATH_BYTES_MAX, value_bytes=1536)
def _keys(path: bytes) -> _Keys | None:
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
    return _Keys(subject, layout.scope_key(layout.CONFIG, subject), versions, layout.after(versions))
