"""``GET /schemas/ids/{id}`` before any routing: the plain cases, from ready bytes.

A case is plain when its answer is one row's body as it stands: the id exists in the default context, nothing
is soft-deleted, no other form of the schema is asked for, and ``subject``, if given, is the only one that
holds the id. Everything else is left to the application, which would give the same answer in every case.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from registry.api.byte_cache import remembered
from registry.api.request_target import parse
from registry.domain.errors import RegistryError
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.rows import layout
from registry.domain.rows.layout import View

_PATH = b"/schemas/ids/"
_PATH_BYTES = len(_PATH)
_CONTEXT = layout.part(DEFAULT_CONTEXT)
_IDS = layout.ID + _CONTEXT
_VERSIONS = layout.VERSION + _CONTEXT
_packed, _SIGN = struct.Struct(">I").pack, 1 << 31  # as rows.number, in half the time
_QUERY_BYTES_MAX = 512
_DIGITS_MAX = 9  # all such numbers are ids; the few larger ids are left to the application
_NAME = len(_IDS) + 4 + 8  # where the subject's name begins in an id row's key


class _Plain(NamedTuple):
    """A query that asks for nothing special; the subject it names, packed, and the key of its config."""

    name: bytes
    config: bytes


def hot(view: View, path: bytes, query: bytes = b"") -> bytes | None:
    """The body of the answer, or ``None`` when this is not a plain case. Two reads; four with a subject.

    ``path`` and ``query`` are raw, as they stand in the request line. The caller has seen that the method is
    GET, that ``Content-Type`` and ``Accept`` are among those served (:mod:`.media_types`), and that the
    request has neither ``If-None-Match`` nor ``X-Registry-Min-Offset``.
    """
    digits = path[_PATH_BYTES:]
    if not path.startswith(_PATH) or len(digits) > _DIGITS_MAX or not digits.isdigit():
        return None
    plain = _plain(query) if query else _NO_SUBJECT
    if plain is None:
        return None
    prefix = _IDS + _packed(int(digits) | _SIGN)
    first = view.seek(prefix)
    if first is None or not first[0].startswith(prefix):
        return None
    key = first[0]
    if plain.name and not _is_only_one(view, plain, key, prefix):
        return None
    value = view.get(_VERSIONS + key[_NAME:])
    return None if value is None or layout.is_deleted(value) else value[layout.BODY :]


def _is_only_one(view: View, plain: _Plain, key: bytes, prefix: bytes) -> bool:
    if key[_NAME:-4] != plain.name or view.get(plain.config) is not None:
        return False
    second = view.seek(key + b"\0")
    return second is None or not second[0].startswith(prefix)


_NO_SUBJECT = _Plain(b"", b"")
_UNSEEN = frozenset({"fetchMaxId", "subject"})


@remembered(bytes_max=8 * 1024 * 1024, key_bytes_max=_QUERY_BYTES_MAX, value_bytes=1024)
def _plain(query: bytes) -> _Plain | None:
    if len(query) > _QUERY_BYTES_MAX:
        return None
    try:
        pairs = parse(b"/", query).query
    except RegistryError:
        return None
    given = dict(reversed(pairs))  # the first of equal names counts
    if not _UNSEEN.issuperset(given) or given.get("fetchMaxId", "").lower() == "true":
        return None
    name = given.get("subject", "")
    if not name:
        return _NO_SUBJECT
    if name.startswith((":.", ":*:")):
        return None
    subject = Subject(DEFAULT_CONTEXT, name)
    return _Plain(layout.part(name), layout.scope_key(layout.CONFIG, subject))
