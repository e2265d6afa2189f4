"""Media types of requests and answers, and content negotiation (Confluent 8.x, Jersey's rules)."""

from __future__ import annotations

from starlette.datastructures import Headers

from registry.domain.errors import BAD_REQUEST, JSON_NEEDED, NOT_ACCEPTABLE, UNSUPPORTED_MEDIA_TYPE

from .request_target import cache_by_bytes

# Media types of answers, most preferred first.
PRODUCED = (
    b"application/vnd.schemaregistry.v1+json",
    b"application/vnd.schemaregistry+json",
    b"application/json",
)
# The media type of answers that only this registry has.
JSON = PRODUCED[-1]
# Streams of objects, one a line.
JSON_LINES = b"application/x-ndjson"
# Media types of request bodies; the last one is the default of some clients.
CONSUMED = frozenset({*PRODUCED, b"application/octet-stream"})

# Some resources also answer in plain text, if the client prefers that to all others.
PLAIN = b"text/plain"

_TAKEN = CONSUMED | {b""}


def negotiate_all(
    headers: Headers, *, plain: bool = False, needs_json: bool = False, own: bool = False
) -> tuple[bytes, bool]:
    """Return the media type of answers and errors, and true if plain text is preferred. Raises 400, 406, 415.

    The rest is said by the operation: ``plain``: :data:`PLAIN` is available too. ``needs_json``: see
    :func:`check_json`. ``own``: Confluent does not have it, so nothing is negotiated.
    """
    content_type = _bytes(headers.get("content-type"))
    if needs_json:
        check_json(content_type, has_body=_has_body(headers))
    if own:
        return PRODUCED[0], False
    check_consumed(content_type)
    kind = negotiate(b",".join(value.encode("latin-1") for value in headers.getlist("accept")), plain=plain)
    is_plain = kind == PLAIN
    return (PRODUCED[0] if is_plain else kind), is_plain  # errors are JSON


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0").strip("0") != "" or "transfer-encoding" in headers


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode("latin-1")


def negotiate(accept: bytes, *, plain: bool = False) -> bytes:
    """Return the media type of the answer; raises 406 if ``accept`` admits none, 400 if it is malformed.

    ``plain``: :data:`PLAIN` is available too.
    """
    return _negotiated_plain(accept) if plain else _negotiate(accept)


@cache_by_bytes(bytes_max=1024 * 1024, key_bytes_max=1024)
def _negotiate(accept: bytes) -> bytes:
    return _best(accept, PRODUCED)


@cache_by_bytes(bytes_max=1024 * 1024, key_bytes_max=1024)
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
    """Raise 415 for an unsupported media type; a missing or blank one is allowed."""
    if content_type and _type_of(content_type) not in _TAKEN:
        raise UNSUPPORTED_MEDIA_TYPE()


def check_json(content_type: bytes | None, *, has_body: bool) -> None:
    """Raise 415 unless a body has a JSON media type; for resources that Confluent's clients do not use.

    Pages of other sites can send bodies of certain other types, or without one, without a preflight.
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
        raise BAD_REQUEST("HTTP 400 Bad Request: the Accept header is not a list of media types")
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
