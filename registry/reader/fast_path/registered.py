"""Fast path of POSTs of a schema that is registered already: registering it again, and looking it up.

Every producer does one or the other when it starts, always with the same bytes. So parsed bodies are cached,
and the answer is spliced from the version's row. A case is plain if the body has only a schema and its type,
no config in scope changes what would be stored, and exactly one version of the subject has the content and is
not soft-deleted. All others are left to the application, which would give the same answers in plain cases
too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from registry.api.bodies import schema_request
from registry.api.request_target import cache_by_bytes
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.lru import Lru
from registry.domain.model import EVERYWHERE, TOP, Subject, identity
from registry.domain.parsing.schema_queries import Source
from registry.domain.queries import entities
from registry.domain.queries.scope import Config
from registry.domain.rows import layout, version_row
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View
from registry.domain.schemas import FORMATS, InvalidSchema, Schema
from registry.security.gate import FULL_ACCESS, Access, Permission
from registry.workers.pool import TEXT_AT_ONCE_MAX


class PlainPost(NamedTuple):
    """A route that takes a schema, with what distinguishes its plain cases from those of the others."""

    route: str
    permission: Permission
    # True if it is most likely a new schema if it is not found.
    new: bool
    # The parameters that change nothing in plain cases, whatever they say.
    ignored: frozenset[str]
    # Returns the body of the answer, from the version's row and number.
    body: Callable[[VersionRow, int], bytes]


def _looked_up(found: VersionRow, _: int) -> bytes:
    return entities.schema_entity(found, times=False)


# By route.
PLAIN_POSTS: Final = {
    each.route: each
    for each in (
        PlainPost(
            "/subjects/{subject}/versions",
            Permission.WRITE,
            new=True,
            ignored=frozenset({"force"}),  # it skips a check that is not made for a registered schema
            body=entities.registration_response,
        ),
        PlainPost(
            "/subjects/{subject}",
            Permission.READ,
            new=False,
            ignored=frozenset({"deleted"}),  # it adds versions, and the one that is found is not deleted
            body=_looked_up,
        ),
    )
}
_BODY_BYTES_MAX = TEXT_AT_ONCE_MAX
Query = tuple[tuple[str, str], ...]  # names and values
_CACHED_BYTES = 376  # memory that one cached body takes, independent of its size


class Parsed(NamedTuple):
    """The facts about a body, for the application if it has to answer."""

    body: bytes
    request: Register  # without a subject
    schema: tuple[Source, Schema] | None = None


class _Content(NamedTuple):
    """The content of a plain body: the hash behind its guid, which does not cover the type, and the type."""

    md5: bytes
    kind: bytes  # as JSON


_NOT_PLAIN = _Content(b"", b"")


class Bodies:
    """Cache of the contents of request bodies, by their hash, within ``bytes_max``; least recently used."""

    def __init__(self, bytes_max: int = 32 * 1024 * 1024) -> None:
        self._contents = Lru[bytes, _Content](max(1, bytes_max // _CACHED_BYTES))
        # Of the body that was parsed last.
        self.newest: Parsed | None = None

    def content(self, body: bytes, *, new: bool) -> _Content:
        """Return the content of a plain body; ``_NOT_PLAIN`` for any other.

        ``new``: if it has to be parsed, then as a new schema, as the application would if it is not found.
        """
        digest = sha256(body).digest()
        found = self._contents.get(digest)
        if found is None:
            found = self._read(body, new)
            self._contents.put(digest, found)
        return found

    def _read(self, body: bytes, new: bool) -> _Content:
        try:
            request = schema_request(body, "")
            self.newest = Parsed(body, request)
            parsed = _parse(request, new)
            if parsed is None:
                return _NOT_PLAIN
            source, schema = parsed
            content = _Content(identity(schema.canonical), b'"%b"' % source.schema_type.encode())
        except (RegistryError, InvalidSchema):
            return _NOT_PLAIN
        self.newest = Parsed(body, request, parsed)
        return content


def _parse(request: Register, new: bool) -> tuple[Source, Schema] | None:
    """Return the schema of a plain request; ``None`` for any other. Raises :class:`InvalidSchema`."""
    if request != Register("", request.schema, request.schema_type, request.references or None):
        return None
    kind, text = request.type_name, request.schema
    if request.references or kind not in FORMATS or not text.strip():
        return None
    served = FORMATS[kind]
    if len(text) * served.weight > TEXT_AT_ONCE_MAX:
        return None
    if new:
        # A registered schema need not be valid as a new one.
        with suppress(InvalidSchema):
            return Source(kind, text, new=True), served.parse(text, new=True)
    return Source(kind, text), served.parse(text)


def registered_schema(
    view: View,
    post: PlainPost,
    keys: Keys,
    query: Query,
    body: bytes,
    bodies: Bodies,
    access: Access = FULL_ACCESS,
) -> bytes | None:
    """Return the body of the answer, or ``None`` if this is not a plain case.

    The caller has checked that ``post`` is that of the request's resource, that ``Content-Type`` and
    ``Accept`` are supported (:mod:`registry.api.media_types`), and that the request has no
    ``X-Registry-Min-Offset``; ``body`` is complete and within the limit.
    """
    if (query and not _is_plain(query, post)) or len(body) > _BODY_BYTES_MAX:
        return None
    # A config with an alias is not plain, so this is the only subject that has to be permitted.
    if not access.may(post.permission, keys.subject):
        return None
    if not _has_rows(view, keys.versions):
        return None  # before the body is parsed, which the application would do again
    md5, schema_type = bodies.content(body, new=post.new)
    if not md5:
        return None
    prefix = keys.contents + md5 + keys.name
    row = view.seek(prefix)
    if row is None or not row[0].startswith(prefix):
        return None  # before the configs are read, which the application would do again
    for key in keys.configs:
        config = view.get(key)
        if config is not None and not _plain_config(config):
            return None
    version = row[0][len(prefix) :]
    second = view.seek(row[0] + b"\0")
    if second is not None and second[0].startswith(prefix):
        return None
    value = view.get(keys.versions + version)
    if value is None or version_row.is_deleted(value):
        return None
    found = VersionRow.unpack(value)
    if found.references:
        return None  # the text of another schema may be this one's with its references put behind it
    return post.body(found, layout.unnumber(version)) if found.kind.endswith(schema_type) else None


def _has_rows(view: View, prefix: bytes) -> bool:
    row = view.seek(prefix)
    return row is not None and row[0].startswith(prefix)


_GENERAL_CONFIGS = tuple(layout.scope_key(layout.CONFIG, scope) for scope in (EVERYWHERE, TOP))


class Keys(NamedTuple):
    """A subject, and parts of the keys of its rows."""

    subject: Subject
    configs: tuple[bytes, ...]
    contents: bytes
    name: bytes
    versions: bytes


def keys_of(subject: Subject) -> Keys | None:
    """Return the keys of a subject; ``None`` if nothing is plain under it."""
    if subject.is_context or not subject.name.isprintable():
        return None
    context, name = layout.part(subject.context), layout.part(subject.name)
    configs = (layout.CONFIG + context + name, layout.CONFIG + context + layout.part(""), *_GENERAL_CONFIGS)
    return Keys(
        subject, tuple(dict.fromkeys(configs)), layout.GUID + context, name, layout.VERSION + context + name
    )


def _is_plain(query: Query, post: PlainPost) -> bool:
    return all(
        name in post.ignored or (name == "normalize" and value.lower() != "true") for name, value in query
    )


_decode = msgspec.json.Decoder(Config, strict=False).decode


@cache_by_bytes(bytes_max=4 * 1024 * 1024, key_bytes_max=2048)
def _plain_config(value: bytes) -> bool:
    config = _decode(value)
    return not (config.adds or config.normalize or config.alias or config.validate_fields)
