"""The two requests that matter most, answered before any routing: by id, and registering what is registered.

What is plain enough is answered from ready bytes with the same headers as by the application; everything else
is left to it.
"""

from __future__ import annotations

import itertools
import uuid
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from registry.api.again import Bodies, register_again
from registry.api.answers import STANDARD_HEADERS
from registry.api.by_id import hot
from registry.api.media import PRODUCED, check_consumed, negotiated
from registry.api.schemas import etag
from registry.domain.errors import RegistryError
from registry.http1.answers import Answer, lines
from registry.http1.request import Request
from registry.store.view import StoreView

BY_ID = b"/schemas/ids/"
SUBJECTS = b"/subjects/"
_GZIP_BYTES_MIN = 16 * 1024
"""From here on compressing, which the application does, saves more time on the way than it takes."""
STANDARD_KIND = PRODUCED[0]
_LEFT = frozenset({b"if-none-match", b"x-registry-min-offset"})
_READ = frozenset({b"accept", b"accept-encoding", b"content-type", b"x-request-id"}) | _LEFT


class _Given(NamedTuple):
    """What a request's headers ask for."""

    kind: bytes
    """The media type to answer with."""
    request_id: bytes
    gzip: bool


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
        # The random part of a UUID, which a count completes for a fraction of the price of another one.
        self._identity = str(uuid.uuid4())[:-12].encode()
        self._numbers = itertools.count()

    def __call__(self, request: Request) -> Answer | None:
        """The answer to a plain request."""
        target = request.target
        if request.method == b"GET":
            if not target.startswith(BY_ID):
                return None
            read = self._by_id
        elif request.method == b"POST" and target.startswith(SUBJECTS):
            read = self._again
        else:
            return None
        given = self._given(request)
        if given is None:
            return None
        try:
            with self._rows.view() as view:
                return read(view, request, given)
        except RegistryError:
            return None

    def _by_id(self, view: StoreView, request: Request, given: _Given) -> Answer | None:
        path, _, query = request.target.partition(b"?")
        body = hot(view, path, query)
        if body is None or (given.gzip and len(body) >= _GZIP_BYTES_MIN):
            return None
        headers = b"%setag: %s\r\nx-request-id: %s\r\nx-registry-offset: %d\r\n" % (
            self._head(given.kind, lasting=True), etag(body), given.request_id, view.applied(),
        )  # fmt: skip
        return Answer(200, headers, body, "/schemas/ids/{id}")

    def _again(self, view: StoreView, request: Request, given: _Given) -> Answer | None:
        path, _, query = request.target.partition(b"?")
        body = register_again(view, path, query, request.body, self._bodies)
        if body is None or (given.gzip and len(body) >= _GZIP_BYTES_MIN):
            return None
        headers = b"%sx-request-id: %s\r\nx-registry-offset: %d\r\n" % (
            self._head(given.kind, lasting=False), given.request_id, view.applied(),
        )  # fmt: skip
        return Answer(200, headers, body, "/subjects/{subject}/versions")

    def _given(self, request: Request) -> _Given | None:
        """What the headers ask for, or ``None`` where they ask for more than plain answers."""
        accept, gzip = b"", False
        content_type = request_id = None
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
                if content_type is not None:
                    return None
                content_type = value
            elif request_id is not None:
                return None
            else:
                request_id = value.strip()
        kind = STANDARD_KIND
        if accept or content_type:
            try:
                check_consumed(content_type)
                kind = negotiated(accept or b"*/*")
            except RegistryError:
                return None
        return _Given(kind, request_id or b"%s%012x" % (self._identity, next(self._numbers)), gzip)

    def _head(self, kind: bytes, *, lasting: bool) -> bytes:
        head = self._heads.get((kind, lasting))
        if head is None:
            own = self._lasting if lasting else b""
            standard = [each for each in STANDARD_HEADERS if not (own and each[0] == b"cache-control")]
            head = self._heads[kind, lasting] = lines([(b"content-type", kind), *standard]) + own
        return head
