"""The requests that matter most, answered before routing: by id, the latest version, and registering again.

What is plain enough is answered from ready bytes with the same headers as by the application; everything else
is left to it. In a cluster, what can change is answered once the node has confirmed that the rows are as new
as the log; all requests that wait for that share one question.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from registry.api.answers import STANDARD_HEADERS
from registry.api.cross_site import FROM_PAGES, HOST, PageGuard
from registry.api.media_types import PRODUCED, check_consumed, negotiated
from registry.api.resource import STALE
from registry.api.response_headers import ResponseHeaders
from registry.api.schemas import etag
from registry.domain.errors import RegistryError
from registry.http1.answers import Answer, Answered, Later, lines
from registry.http1.request import Header, Request
from registry.reader.read_barrier import Confirming
from registry.store.views import AppliedView

from .latest_version import is_latest, latest
from .register import Bodies, register_again
from .schema_by_id import hot

BY_ID = b"/schemas/ids/"
SUBJECTS = b"/subjects/"
_GZIP_BYTES_MIN = 16 * 1024
"""From here on compressing, which the application does, saves more time on the way than it takes."""
STANDARD_KIND = PRODUCED[0]
_LEFT = frozenset({b"if-none-match", b"x-registry-min-offset", b"x-forward"}) | FROM_PAGES
_READ = frozenset({b"accept", b"accept-encoding", b"content-type", b"x-request-id", HOST}) | _LEFT
_STALE = lines([STALE])
_log = logging.getLogger(__name__)


class _Given(NamedTuple):
    """What a request's headers ask for."""

    kind: bytes
    """The media type to answer with."""
    request_id: bytes
    """The client's own; empty before one is given."""
    gzip: bool


class Rows(Protocol):
    """Where the rows come from."""

    def view(self) -> AbstractContextManager[AppliedView]:
        """The rows at one moment."""
        ...


class Quick:
    """Answers one request at once or later, or leaves it with ``None``."""

    def __init__(
        self,
        rows: Rows,
        *,
        cache_max_age_s: int,
        confirming: Confirming | None = None,
        local_reads: bool = False,
        guard: PageGuard | None = None,
        repeats: bool = True,
        extra: ResponseHeaders | None = None,
    ) -> None:
        """``confirming``: in a cluster only. ``guard``: the application refuses foreign hosts by it.

        ``repeats``: answer registrations that repeat an earlier one. ``extra``: headers of every answer.
        """
        self._rows = rows
        self._confirming = confirming
        self._local_reads = local_reads
        self._guard = guard or PageGuard()
        self._repeats = repeats
        self._extra = extra or ResponseHeaders()
        self._bodies = Bodies()
        self._headers: list[Header] = []
        self._asked: _Given | None = self._ask([])
        self._heads: dict[tuple[bytes, bool], bytes] = {}
        self._lasting = [(b"cache-control", b"max-age=%d" % cache_max_age_s)] if cache_max_age_s else []
        # The random part of a UUID, which a count completes for a fraction of the price of another one.
        self._identity = str(uuid.uuid4())[:-12].encode()
        self._numbers = itertools.count()

    def __call__(self, request: Request) -> Answer | Later | None:
        """The answer to a plain request."""
        if not self._extra.constant:
            return None
        target = request.target
        if request.method == b"GET":
            if target.startswith(BY_ID):
                return self._by_id(request)
            if target.startswith(SUBJECTS) and is_latest(target):
                return self._of_latest(request)
        elif request.method == b"POST" and self._repeats and target.startswith(SUBJECTS):
            return self._registered_again(request)
        return None

    def _by_id(self, request: Request) -> Answer | None:
        given = self._given(request)
        if given is None:
            return None
        path, _, query = request.target.partition(b"?")
        try:
            with self._rows.view() as view:
                body, applied = hot(view, path, query), view.applied()
        except RegistryError:
            return None
        if body is None or (given.gzip and len(body) >= _GZIP_BYTES_MIN):
            return None
        headers = b"%setag: %s\r\nx-request-id: %s\r\nx-registry-offset: %d\r\n" % (
            self._head(given.kind, lasting=True), etag(body), given.request_id, applied,
        )  # fmt: skip
        return Answer(200, headers, body, "/schemas/ids/{id}")

    def _of_latest(self, request: Request) -> Answer | Later | None:
        given = self._given(request)
        if given is None:
            return None
        if self._confirming is None or self._local_reads:
            return self._latest(request, given, fresh=True)
        return _later(self._confirming, lambda fresh: self._latest(request, given, fresh=fresh))

    def _latest(self, request: Request, given: _Given, *, fresh: bool) -> Answer | None:
        try:
            with self._rows.view() as view:
                body, applied = latest(view, request.target, b""), view.applied()
        except RegistryError:
            return None
        route = "/subjects/{subject}/versions/{version}"
        return self._plain(body, applied, given, route, b"" if fresh else _STALE)

    def _registered_again(self, request: Request) -> Answer | Later | None:
        given = self._given(request)
        if given is None:
            return None
        answer = self._again(request, given)
        if answer is None or self._confirming is None:
            return answer
        # Not a word about a write that nobody can vouch for: the application hands it to the primary.
        return _later(self._confirming, lambda fresh: self._again(request, given) if fresh else None)

    def _again(self, request: Request, given: _Given) -> Answer | None:
        path, _, query = request.target.partition(b"?")
        try:
            with self._rows.view() as view:
                body, applied = register_again(view, path, query, request.body, self._bodies), view.applied()
        except RegistryError:
            return None
        return self._plain(body, applied, given, "/subjects/{subject}/versions")

    def _plain(
        self, body: bytes | None, applied: int, given: _Given, route: str, more: bytes = b""
    ) -> Answer | None:
        if body is None or (given.gzip and len(body) >= _GZIP_BYTES_MIN):
            return None
        headers = b"%sx-request-id: %s\r\nx-registry-offset: %d\r\n%s" % (
            self._head(given.kind, lasting=False), given.request_id, applied, more,
        )  # fmt: skip
        return Answer(200, headers, body, route)

    def _given(self, request: Request) -> _Given | None:
        """What the headers ask for, or ``None`` where they ask for more than plain answers."""
        # Clients say the same again and again, mostly all of them.
        if request.headers != self._headers:
            self._headers, self._asked = request.headers, self._ask(request.headers)
        asked = self._asked
        if asked is None or asked.request_id:
            return asked
        return _Given(asked.kind, b"%b%012x" % (self._identity, next(self._numbers)), asked.gzip)

    def _ask(self, headers: list[Header]) -> _Given | None:
        accept, gzip = b"", False
        content_type = request_id = None
        for name, value in headers:
            if name not in _READ:
                continue
            if name in _LEFT or (name == HOST and not self._guard.allows_host(value)):
                return None
            if name == HOST:
                continue
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
        return _Given(kind, request_id or b"", gzip)

    def _head(self, kind: bytes, *, lasting: bool) -> bytes:
        head = self._heads.get((kind, lasting))
        if head is None:
            own = self._lasting if lasting else []
            standard = [each for each in STANDARD_HEADERS if not (own and each[0] == b"cache-control")]
            headers = self._extra.applied([(b"content-type", kind), *standard, *own])
            head = self._heads[kind, lasting] = lines(headers)
        return head


def _later(confirming: Confirming, answer: Callable[[bool], Answer | None]) -> Later:
    """What ``answer`` says once it is told whether the rows are as new as the log."""

    def later(answered: Answered) -> None:
        def told(fresh: bool) -> None:
            try:
                found = answer(fresh)
            except Exception:
                _log.exception("unexpected error; the request is left to the application")
                found = None
            answered(found)

        confirming.then(told)

    return later
