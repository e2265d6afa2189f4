"""The two requests that matter most, answered before any routing: by id, and registering what is registered.

What is plain enough is answered from ready bytes with the same headers as by the application; everything else
is left to it.
"""

from __future__ import annotations

import itertools
import uuid
from contextlib import AbstractContextManager
from typing import Protocol

from registry.api.again import Bodies, register_again
from registry.api.answers import STANDARD_HEADERS
from registry.api.by_id import hot
from registry.api.media import check_consumed, negotiated
from registry.api.schemas import etag
from registry.domain.errors import RegistryError
from registry.domain.rows import View
from registry.http1.answers import Answer, lines
from registry.http1.request import Request

BY_ID = b"/schemas/ids/"
SUBJECTS = b"/subjects/"
_GZIP_BYTES_MIN = 16 * 1024
"""From here on compressing, which the application does, saves more time on the way than it takes."""
_LEFT = frozenset({b"if-none-match", b"x-registry-min-offset"})
_READ = frozenset({b"accept", b"accept-encoding", b"content-type", b"x-request-id"}) | _LEFT


class StoreView(View, Protocol):
    """A view that knows its offset."""

    def applied(self) -> int:
        """The applied offset of the rows that it sees."""
        ...


class Rows(Protocol):
    """Where the rows come from."""

    def view(self) -> AbstractContextManager[StoreView]:
        """The rows at one moment."""
        ...


class Quick:
    """Answers one request at once, or leaves it with ``None``."""

    def __init__(self, rows: Rows, *, cache_max_age_s: int) -> None:
        self._rows = rows
        self._bodies = Bodies()
        self._heads: dict[tuple[bytes, bool], bytes] = {}
        self._lasting = b"cache-control: max-age=%d\r\n" % cache_max_age_s if cache_max_age_s else b""
        # Unique like a UUID, for a fraction of its price.
        self._identity = uuid.uuid4().hex[:20].encode()
        self._numbers = itertools.count()

    def __call__(self, request: Request) -> Answer | None:
        """The answer to a plain request."""
        target = request.target
        if request.method == b"GET":
            if not target.startswith(BY_ID):
                return None
        elif request.method != b"POST" or not target.startswith(SUBJECTS):
            return None
        given = self._given(request)
        if given is None:
            return None
        kind, request_id, gzip = given
        path, _, query = target.partition(b"?")
        try:
            with self._rows.view() as view:
                if request.method == b"GET":
                    body, route = hot(view, path, query), "/schemas/ids/{id}"
                else:
                    body = register_again(view, path, query, request.body, self._bodies)
                    route = "/subjects/{subject}/versions"
                if body is None or (gzip and len(body) >= _GZIP_BYTES_MIN):
                    return None
                applied = view.applied()
        except RegistryError:
            return None
        lasting = request.method == b"GET"
        head = self._heads.get((kind, lasting)) or self._head(kind, lasting=lasting)
        if lasting:
            headers = b"%setag: %s\r\nx-request-id: %s\r\nx-registry-offset: %d\r\n" % (
                head, etag(body), request_id, applied,
            )  # fmt: skip
        else:
            headers = b"%sx-request-id: %s\r\nx-registry-offset: %d\r\n" % (head, request_id, applied)
        return Answer(200, headers, body, route)

    def _given(self, request: Request) -> tuple[bytes, bytes, bool] | None:
        """The media type to answer with, the request's id, and whether the client takes gzip."""
        accept, request_id, gzip = b"", b"", False
        content_type = None
        for name, value in request.headers:
            if name not in _READ:
                continue
            if name in _LEFT:
                return None
            if name == b"accept":
                if accept:
                    return None
                accept = value
            elif name == b"accept-encoding":
                gzip = gzip or b"gzip" in value
            elif name == b"content-type":
                content_type = value
            elif request_id:
                return None
            else:
                request_id = value.strip()
        try:
            check_consumed(content_type)
            kind = negotiated(accept or b"*/*")
        except RegistryError:
            return None
        return kind, request_id or b"%s%012x" % (self._identity, next(self._numbers)), gzip

    def _head(self, kind: bytes, *, lasting: bool) -> bytes:
        standard = [
            each
            for each in STANDARD_HEADERS
            if not (lasting and self._lasting and each[0] == b"cache-control")
        ]
        head = lines([(b"content-type", kind), *standard]) + (self._lasting if lasting else b"")
        self._heads[kind, lasting] = head
        return head
