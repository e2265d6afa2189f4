"""Cross-origin requests: what lets pages of other origins use the API from a browser. Off by default.

Confluent 8.x has the same by ``access.control.allow.origin``; as there, credentials are never allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

Header = tuple[bytes, bytes]

EXPOSED = (
    b"etag", b"link", b"retry-after", b"warning", b"x-registry-equal-to", b"x-registry-offset",
    b"x-request-id",
)  # fmt: skip
"""Headers of answers that a page may read beyond those that it always may."""
_METHODS = b"GET, HEAD, POST, PUT, DELETE"
_MAX_AGE_S = b"3600"
_ANY = "*"


class Cors:
    """Which headers answers get; none where no origin is allowed."""

    def __init__(self, origins: Collection[str]) -> None:
        """``origins`` as browsers send them; ``*`` stands for all."""
        self._any = _ANY in origins
        self._origins = frozenset(each.encode() for each in origins)

    def headers(self, request: Iterable[Header], *, options: bool = False) -> tuple[Header, ...]:
        """For the answer to a request with these headers; ``options``: it asks what it may ask."""
        if not self._origins:
            return ()
        given = dict(request)
        origin = given.get(b"origin")
        if self._any:
            allowed: tuple[Header, ...] = ((b"access-control-allow-origin", b"*"),)
        elif origin in self._origins:
            allowed = ((b"access-control-allow-origin", origin), (b"vary", b"origin"))
        else:
            return ((b"vary", b"origin"),)
        if options and b"access-control-request-method" in given:
            wanted = given.get(b"access-control-request-headers", b"")
            return (
                *allowed,
                (b"access-control-allow-methods", _METHODS),
                *(((b"access-control-allow-headers", wanted),) if wanted else ()),
                (b"access-control-max-age", _MAX_AGE_S),
            )
        return (*allowed, (b"access-control-expose-headers", b", ".join(EXPOSED)))
