"""``POST /subjects/{subject}/versions`` before any routing: a schema that is registered already, sent again.

This is what every producer does at its start, always with the same bytes. So bodies are remembered together
with what they say, and the answer is spliced from the version's row. A case is plain when the body holds a
schema and nothing else that counts, no config in scope changes what is stored, and the subject holds the
content in exactly one version that is not soft-deleted. Everything else is left to the application, which
would give the same answer in every case.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from typing import NamedTuple

import msgspec

from registry.api.bodies import schema_request
from registry.api.byte_cache import remembered
from registry.api.request_target import parse
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.model import EVERYWHERE, TOP, Subject, identity
from registry.domain.queries import entities
from registry.domain.queries.scope import Config
from registry.domain.rows import layout
from registry.domain.rows.layout import VersionRow, View
from registry.domain.schemas import FORMATS, InvalidSchema
from registry.workers.pool import TEXT_AT_ONCE_MAX

_BODY_BYTES_MAX = TEXT_AT_ONCE_MAX
_PATH_BYTES_MAX = 1024
_QUERY_BYTES_MAX = 512
_PLACE_BYTES = 2048  # of the parts of a subject's keys, none of which is longer than LMDB allows
_PLACES_BYTES = 32 * 1024 * 1024
_KEPT_BYTES = 320
"""What one remembered body takes in memory, whatever its size."""


class _Said(NamedTuple):
    """The guid of a content, which does not cover its type, and the type."""

    md5: bytes
    kind: bytes


_NOTHING = _Said(b"", b"")


class Bodies:
    """Request bodies, by their hash, and what they say: the last ones used within ``bytes_max``."""

    def __init__(self, bytes_max: int = 32 * 1024 * 1024) -> None:
        self._kept_max = max(1, bytes_max // _KEPT_BYTES)
        self._kept: OrderedDict[bytes, _Said] = OrderedDict()

    def said(self, body: bytes) -> _Said:
        """What a plain body says; ``_NOTHING`` for any other."""
        digest = sha256(body).digest()
        kept = self._kept.get(digest)
        if kept is None:
            kept = self._kept[digest] = _said(body)
            if len(self._kept) > self._kept_max:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(digest)
        return kept


def _said(body: bytes) -> _Said:
    try:
        request = schema_request(body, "")
        if request != Register("", request.schema, request.schema_type, request.references or None):
            return _NOTHING
        kind = "AVRO" if request.schema_type is None else request.schema_type
        if request.references or kind not in FORMATS or not request.schema.strip():
            return _NOTHING
        if len(request.schema) * FORMATS[kind].weight > TEXT_AT_ONCE_MAX:
            return _NOTHING
        # Read as a lookup reads it: what is registered need not be valid as new.
        return _Said(identity(FORMATS[kind].parse(request.schema).canonical), b'"%b"' % kind.encode())
    except (RegistryError, InvalidSchema):
        return _NOTHING


def register_again(view: View, path: bytes, query: bytes, body: bytes, bodies: Bodies) -> bytes | None:
    """The body of the answer, or ``None`` when this is not a plain case.

    ``path`` and ``query`` are raw, as they stand in the request line. The caller has seen that the method is
    POST, that ``Content-Type`` and ``Accept`` are among those served (:mod:`.media_types`), and that the
    request has no ``X-Registry-Min-Offset``; ``body`` is complete and within the limit.
    """
    place = _place(path)
    if place is None or (query and not _plain_query(query)) or len(body) > _BODY_BYTES_MAX:
        return None
    if not _has_rows(view, place.versions):
        return None  # before the body is parsed: the application will have to do that again
    md5, kind = bodies.said(body)
    if not md5:
        return None
    for key in place.configs:
        config = view.get(key)
        if config is not None and not _plain_config(config):
            return None
    prefix = place.contents + md5 + place.name
    row = view.seek(prefix)
    if row is None or not row[0].startswith(prefix):
        return None
    version = row[0][len(prefix) :]
    second = view.seek(row[0] + b"\0")
    if second is not None and second[0].startswith(prefix):
        return None
    value = view.get(place.versions + version)
    if value is None or layout.is_deleted(value):
        return None
    found = VersionRow.unpack(value)
    return entities.registered(found, layout.unnumber(version)) if found.kind.endswith(kind) else None


def _has_rows(view: View, prefix: bytes) -> bool:
    row = view.seek(prefix)
    return row is not None and row[0].startswith(prefix)


class _Place(NamedTuple):
    """Where a subject's rows are, as parts of their keys."""

    configs: tuple[bytes, ...]
    contents: bytes
    name: bytes
    versions: bytes


@remembered(bytes_max=_PLACES_BYTES, key_bytes_max=_PATH_BYTES_MAX, value_bytes=_PLACE_BYTES)
def _place(path: bytes) -> _Place | None:
    if len(path) > _PATH_BYTES_MAX:
        return None
    try:
        segments = parse(path, b"").segments
    except RegistryError:
        return None
    if len(segments) != 3 or (segments[0], segments[2]) != ("subjects", "versions"):
        return None
    subject = Subject.parse(segments[1])
    if subject.is_context or not subject.name.isprintable():
        return None
    scopes = dict.fromkeys((subject, Subject(subject.context, ""), EVERYWHERE, TOP))
    return _Place(
        tuple(layout.scope_key(layout.CONFIG, scope) for scope in scopes),
        layout.context_key(layout.GUID, subject.context),
        layout.part(subject.name),
        layout.scope_key(layout.VERSION, subject),
    )


@remembered(bytes_max=256 * 1024, key_bytes_max=_QUERY_BYTES_MAX)
def _plain_query(query: bytes) -> bool:
    if len(query) > _QUERY_BYTES_MAX:
        return False
    try:
        pairs = parse(b"/", query).query
    except RegistryError:
        return False
    # "force" skips a check that a registered schema does not meet.
    return all(name == "force" or (name == "normalize" and value.lower() != "true") for name, value in pairs)


_decode = msgspec.json.Decoder(Config, strict=False).decode


@remembered(bytes_max=4 * 1024 * 1024, key_bytes_max=2048)
def _plain_config(value: bytes) -> bool:
    config = _decode(value)
    return not (config.adds or config.normalize or config.alias or config.validate_fields)
