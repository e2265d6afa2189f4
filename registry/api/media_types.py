"""Media types: what may be sent, and what is answered (Confluent 8.x, Jersey's rules)."""

from __future__ import annotations

from registry.domain.errors import BAD_REQUEST, JSON_NEEDED, NOT_ACCEPTABLE, UNSUPPORTED_MEDIA_TYPE

from .byte_cache import remembered

PRODUCED = (
    b"application/vnd.schemaregistry.v1+json",
    b"application/vnd.schemaregistry+json",
    b"application/json",
)
"""What the API answers with, most wanted first."""

CONSUMED = frozenset({*PRODUCED, b"application/octet-stream"})
"""What the API accepts; the last because some clients name no type."""

PLAIN = b"text/plain"
"""What some resources answer besides, for people; only where nothing else of ours is wanted as much."""

_TAKEN = CONSUMED | {b""}


def negotiated(accept: bytes, *, plain: bool = False) -> bytes:
    """The type to answer with; raises 406 when ``accept`` allows none of ours, 400 when it is no list.

    ``plain``: :data:`PLAIN` is among ours.
    """
    return _negotiated_plain(accept) if plain else _negotiated(accept)


@remembered(bytes_max=1024 * 1024, key_bytes_max=1024)
def _negotiated(accept: bytes) -> bytes:
    return _best(accept, PRODUCED)


@remembered(bytes_max=1024 * 1024, key_bytes_max=1024)
def _negotiated_plain(accept: bytes) -> bytes:
    return _best(accept, (*PRODUCED, PLAIN))


def _best(accept: bytes, kinds: tuple[bytes, ...]) -> bytes:
    best: tuple[float, int] | None = None
    if not accept.strip(b" \t,"):
        return PRODUCED[0]
    for item in accept.split(b","):
        if not item.strip():
            continue  # lists may have empty members (RFC 9110, 5.6.1)
        media_range, quality = _media_range(item)
        if quality <= 0:
            continue
        rank = next((place for place, kind in enumerate(kinds) if _covers(media_range, kind)), None)
        if rank is not None and (best is None or (-quality, rank) < best):
            best = (-quality, rank)
    if best is None:
        raise NOT_ACCEPTABLE()
    return kinds[best[1]]


def check_consumed(content_type: bytes | None) -> None:
    """Raise 415 for a body of a type that is not taken; none at all, or a blank one, is fine."""
    if content_type and _type_of(content_type) not in _TAKEN:
        raise UNSUPPORTED_MEDIA_TYPE()


def check_json(content_type: bytes | None, *, has_body: bool) -> None:
    """Raise 415 unless a body is called JSON, for resources that Confluent's clients do not know.

    Pages of other sites can send bodies of any other type, and of none, without asking first.
    """
    if (content_type or has_body) and _type_of(content_type) not in PRODUCED:
        raise JSON_NEEDED()


def _type_of(content_type: bytes | None) -> bytes:
    return (content_type or b"").split(b";", 1)[0].strip().lower()


def _media_range(item: bytes) -> tuple[bytes, float]:
    name, *parameters = item.split(b";")
    name = name.strip().lower()
    if name == b"*":  # Java's URL connection sends this for */*
        name = b"*/*"
    if b"/" not in name:
        raise BAD_REQUEST("HTTP 400 Bad Request: the Accept header is no list of media types")
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition(b"=")
        if key.strip().lower() == b"q":
            try:
                quality = float(value)
            except ValueError:
                raise BAD_REQUEST("HTTP 400 Bad Request: the Accept header has a bad quality") from None
    return name, quality


def _covers(media_range: bytes, kind: bytes) -> bool:
    return media_range in (b"*/*", kind) or media_range == kind.partition(b"/")[0] + b"/*"
