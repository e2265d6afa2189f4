"""Fast paths of reads: a schema by id, and the latest version of a subject.

A case is plain if the subject's highest version is not soft-deleted, the subject has no config that could be
an alias, and no other format is requested. All others are left to the application, which would give the same
answers in plain cases too.

A case is plain if the answer is the body of one row: the id exists in the default context, nothing is
soft-deleted, no other format is requested, and ``subject``, if present, is the only subject with the id. All
others are left to the application, which would give the same answers in plain cases too.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from registry.api.request_target import cache_by_bytes, parse
from registry.domain.errors import RegistryError
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.queries import entities
from registry.domain.rows import layout, version_row
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View
from registry.security.gate import FULL_ACCESS, Access, Permission

_PATH_BYTES_MAX = 1024
_TAIL = ("versions", "latest")


class _Keys(NamedTuple):
    """A subject and the keys of its rows."""

    subject: Subject
    config: bytes
    versions: bytes
    after: bytes  # sorts behind all its versions


# Headers that depend on the rows, and the body.
Schema = tuple[bytes, bytes]


def latest_version(view: View, path: bytes, query: bytes, access: Access = FULL_ACCESS) -> Schema | None:
    """Return the header and body of the answer, or ``None`` if this is not a plain case. Takes two reads.

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
    found = VersionRow.unpack(row[1])
    tag = entities.version_tag(layout.unnumber(row[0][-4:]), found)
    return b'etag: "%s"\r\n' % tag.encode(), entities.schema_entity(found)


def is_latest(path: bytes) -> bool:
    """Return true if :func:`latest_version` might answer."""
    return path.endswith(b"/versions/latest") and _keys(path) is not None


@cache_by_bytes(bytes_max=32 * 1024 * 1024, key_bytes_max=_PATH_BYTES_MAX, value_bytes=1536)
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


BY_ID = b"/schemas/ids/"
_PATH_BYTES = len(BY_ID)
_CONTEXT = layout.part(DEFAULT_CONTEXT)
_IDS = layout.ID + _CONTEXT
_VERSIONS = layout.VERSION + _CONTEXT
_packed, _SIGN = struct.Struct(">I").pack, 1 << 31  # as rows.number, in half the time
_QUERY_BYTES_MAX = 512
_DIGITS_MAX = 9  # so that every such number fits an id; larger ids are left to the application
_PREFIX_BYTES = len(_IDS) + 4
_NAME = _PREFIX_BYTES + 8  # where the subject's name begins in an id row's key


class _Filter(NamedTuple):
    """The subject that a plain query names."""

    name: bytes  # packed; empty if the query names none
    config: bytes  # key of its config


def schema_by_id(view: View, path: bytes, query: bytes = b"") -> bytes | None:
    """Return the body of the answer, or ``None`` if this is not a plain case.

    Takes two reads, or four with a subject. ``path`` and ``query`` are raw, as in the request line. The
    caller has checked that the method is GET, that the path begins with ``BY_ID``, that ``Content-Type`` and
    ``Accept`` are supported (:mod:`registry.api.media_types`), and that the request has neither
    ``If-None-Match`` nor ``X-Registry-Min-Offset``.
    """
    digits = path[_PATH_BYTES:]
    if len(digits) > _DIGITS_MAX or not digits.isdigit():
        return None
    wanted = _filter(query) if query else _NO_SUBJECT
    if wanted is None:
        return None
    prefix = _IDS + _packed(int(digits) | _SIGN)
    first = view.seek(prefix)
    if first is None:
        return None
    key, _ = first
    if key[:_PREFIX_BYTES] != prefix:
        return None
    if wanted is not _NO_SUBJECT and not _is_only_one(view, wanted, key, prefix):
        return None
    value = view.get(_VERSIONS + key[_NAME:])
    return None if value is None or version_row.is_deleted(value) else value[version_row.BODY :]


def _is_only_one(view: View, wanted: _Filter, key: bytes, prefix: bytes) -> bool:
    if key[_NAME:-4] != wanted.name or view.get(wanted.config) is not None:
        return False
    second = view.seek(key + b"\0")
    return second is None or not second[0].startswith(prefix)


_RECENT_BYTES_MAX = 4 << 20
_RECENT_BYTES = 512  # what an entry takes besides its body


class RecentSchemas:
    """Schemas by target, as found at one moment of the rows: saves half of the CPU of a repeated read.

    Only one in ``EVERY`` that were not here is added, and all are dropped when there is no room: knowing
    which was used least recently would take more than it saves where clients read all schemas alike.
    """

    EVERY = 8

    def __init__(self, bytes_max: int = _RECENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._offered = 0
        self.moment: int | None = None
        self.found: dict[bytes, Schema] = {}

    def offer(self, moment: int | None, target: bytes, schema: Schema) -> None:
        """Add what was found for ``target`` at a moment, if its turn is now; ``None``: it is not to be kept.

        What was found at another moment is dropped.
        """
        if moment != self.moment:
            self.moment = moment
            self._drop()
        self._offered += 1
        size = len(schema[1]) + _RECENT_BYTES
        if moment is None or self._offered % self.EVERY or not self._is_small(target, size):
            return
        if self._bytes + size > self._bytes_max:
            self._drop()
        self.found[target] = schema
        self._bytes += size

    def _is_small(self, target: bytes, size: int) -> bool:
        return len(target) <= _PATH_BYTES_MAX and size <= self._bytes_max // 8

    def _drop(self) -> None:
        self.found.clear()
        self._bytes = 0


_NO_SUBJECT = _Filter(b"", b"")
_IGNORED = frozenset({"fetchMaxId", "subject"})


@cache_by_bytes(bytes_max=8 * 1024 * 1024, key_bytes_max=_QUERY_BYTES_MAX, value_bytes=1024)
def _filter(query: bytes) -> _Filter | None:
    if len(query) > _QUERY_BYTES_MAX:
        return None
    try:
        pairs = parse(b"/", query).query
    except RegistryError:
        return None
    parameters = dict(reversed(pairs))  # the first of several values counts
    if not _IGNORED.issuperset(parameters) or parameters.get("fetchMaxId", "").lower() == "true":
        return None
    name = parameters.get("subject", "")
    if not name:
        return _NO_SUBJECT
    if name.startswith((":.", ":*:")):
        return None
    subject = Subject(DEFAULT_CONTEXT, name)
    return _Filter(layout.part(name), layout.scope_key(layout.CONFIG, subject))
