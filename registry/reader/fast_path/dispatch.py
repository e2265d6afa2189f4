"""Shortcuts for the most frequent requests: by id, the latest version, and POSTs of registered schemas.

Plain cases are answered before routing, from stored bytes, with the same headers as by the application; all
other requests are left to it. In a cluster, data that can change is answered after the read barrier: once the
store is known to be as new as the log. All requests that wait at the barrier share one query.

A POST of a schema that is no plain case, or none that can be, is handed to the application with all that is
known of it, past ASGI: registrations of new schemas, lookups and checks of compatibility.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from registry.api.answers import VARY, with_standard
from registry.api.app import Gateway
from registry.api.browsers import Cors, PageGuard, ResponseHeaders
from registry.api.request_context import RequestContext
from registry.api.request_target import Target, cache_by_bytes, parse
from registry.api.resource import Resource
from registry.api.row_handlers import STALE
from registry.api.schemas import etag
from registry.base.observe.metrics import Headers
from registry.domain.errors import RegistryError
from registry.domain.model import Subject
from registry.http1.messages import Answer, Answered, Client, Found, Later, Request, Running, lines
from registry.reader.backend import ReadBarrier
from registry.security.client_address import TrustedProxies
from registry.security.gate import (
    FULL_ACCESS,
    OPEN_GATE,
    Credentials,
    PassGate,
    Permission,
)
from registry.store.views import AppliedView

from .preferences import GZIP_BYTES_MIN, AnswerHeaders, Preferences, RequestHeaders
from .reads import BY_ID, RecentSchemas, Schema, is_latest, latest_version, schema_by_id
from .registered import PLAIN_POSTS, Bodies, Keys, PlainPost, Query, keys_of, registered_schema

SUBJECTS = b"/subjects/"
# Where POSTs have schemas.
_WITH_SCHEMAS = (SUBJECTS, b"/compatibility/subjects/")
_PATH_BYTES_MAX = 1024
_ROUTE_BYTES = 3072  # memory of one path's route, with keys none of which is longer than LMDB allows
_ROUTES_BYTES_MAX = 32 * 1024 * 1024
_STALE = lines([STALE])
_new = tuple.__new__
_log = logging.getLogger(__name__)


class _Route(NamedTuple):
    """The resource of a path that names a subject."""

    resource: Resource
    target: Target
    path: dict[str, str]  # the parameters in it
    subject: Subject
    # For those that can be plain.
    plain: PlainPost | None
    keys: Keys | None


class _Post(NamedTuple):
    """A POST that the application can answer past ASGI."""

    request: Request
    client: Client
    preferences: Preferences
    route: _Route
    query: Query


class FastPaths:
    """Answers a request at once or later, or returns ``None`` to leave it to the application."""

    def __init__(
        self,
        view: Callable[[], AppliedView],
        app: Gateway,
        *,
        seen: Callable[[], int],
        cache_max_age_s: int,
        newer: Callable[[int | None], AppliedView | None] | None = None,
        barrier: ReadBarrier | None = None,
        local_reads: bool = False,
        guard: PageGuard | None = None,
        registered: bool = True,
        extra: ResponseHeaders | None = None,
        cors: Cors | None = None,
        proxies: TrustedProxies | None = None,
        gate: PassGate = OPEN_GATE,
    ) -> None:
        """``view`` returns the rows at one moment, or raises 503, for instance if the log may not be theirs.

        ``app`` answers what is not plain; ``seen`` returns the applied offset of the newest rows that were
        read. ``newer`` returns a view, or ``None`` if its rows are still those of the moment of an earlier
        one. ``barrier``: only in a cluster. ``guard``: refused requests are left to the
        application.

        ``registered``: answer POSTs of registered schemas. ``extra``, ``cors``: headers of every answer of
        the application. ``proxies``: see :class:`.RequestContext`. ``gate``: requests whose credentials it
        does not know are left to the application.
        """
        self._view = view
        self._newer = newer or (lambda _: view())
        self._recent = RecentSchemas()
        self._app = app
        self._seen = seen
        # Requests with an origin are left to the application.
        self._cors = () if cors is None else cors.headers(())
        self._proxies = proxies or TrustedProxies()
        self._routes = cache_by_bytes(
            bytes_max=_ROUTES_BYTES_MAX, key_bytes_max=_PATH_BYTES_MAX, value_bytes=_ROUTE_BYTES
        )(self._find_route)
        self._barrier = barrier
        self._local_reads = local_reads
        self._headers = RequestHeaders(guard or PageGuard(), gate)
        self._registered = registered
        self._extra = extra or ResponseHeaders()
        self._bodies = Bodies()
        self._answers = AnswerHeaders(self._extra, cache_max_age_s)

    def __call__(self, request: Request, client: Client) -> Found:
        """Answer a request if it is a plain one."""
        if not self._extra.constant:
            return None
        # Unpacking a named tuple takes less time than two of its attributes.
        method, target, headers, _, _, _ = request
        if method == b"GET":
            if target.startswith(BY_ID):
                return self._by_id(target, headers, client)
            if target.startswith(SUBJECTS) and is_latest(target):
                return self._of_latest(target, headers, client)
        elif method == b"POST" and target.startswith(_WITH_SCHEMAS):
            return self._post(request, client)
        return None

    def _by_id(self, target: bytes, sent: Headers, client: Client) -> Answer | None:
        preferences = self._headers.preferences(sent, client)
        if preferences is None:
            return None
        # The row of an id may be another subject's than those that may be read.
        if preferences.access is not FULL_ACCESS and not preferences.access.everywhere(Permission.READ):
            return None
        found = self._find(target)
        if found is None or (preferences.gzip and len(found[1]) >= GZIP_BYTES_MIN):
            return None
        known, body = found
        request_id = preferences.request_id or self._answers.next_id()
        head = self._answers.lasting_heads[preferences.media_type]
        headers = b"%s%sx-request-id: %s\r\n" % (head, known, request_id)
        # The named tuple's own constructor takes three times as long.
        principal, kind = preferences.principal, preferences.kind
        return _new(Answer, (200, headers, body, "/schemas/ids/{id}", request_id, principal, kind))

    def _find(self, target: bytes) -> Schema | None:
        recent = self._recent
        known = recent.found.get(target)
        try:
            view = self._newer(None if known is None else recent.moment)
        except RegistryError:
            return None
        if view is None:
            return known
        path, _, query = target.partition(b"?")
        try:
            body, applied = schema_by_id(view, path, query), view.applied()
        except RegistryError:
            return None
        finally:  # A ``with`` block costs more.
            view.__exit__(None, None, None)
        if body is None:
            return None
        found = b"etag: %s\r\nx-registry-offset: %d\r\n" % (etag(body), applied), body
        recent.offer(view.moment, target, found)
        return found

    def _of_latest(self, target: bytes, sent: Headers, client: Client) -> Answer | Later | None:
        preferences = self._headers.preferences(sent, client)
        if preferences is None:
            return None
        if self._barrier is None or self._local_reads:
            return self._latest(target, preferences, fresh=True)
        return _later(self._barrier, lambda fresh: self._latest(target, preferences, fresh=fresh))

    def _latest(self, target: bytes, preferences: Preferences, *, fresh: bool) -> Answer | None:
        try:
            with self._view() as view:
                found = latest_version(view, target, b"", preferences.access)
                applied = view.applied()
        except RegistryError:
            return None
        if found is None:
            return None
        tag, body = found
        route = "/subjects/{subject}/versions/{version}"
        return self._answers.plain(body, applied, preferences, route, tag if fresh else tag + _STALE)

    def _post(self, request: Request, client: Client) -> Found:
        preferences = self._headers.preferences(request.headers, client)
        if preferences is None:
            return None
        path, _, query = request.target.partition(b"?")
        try:
            route, pairs = self._routes(path), _parsed_query(query) if query else ()
        except RegistryError:
            return None
        if route is None:
            return None
        post = _Post(request, client, preferences, route, pairs)
        answer = self._answer_registered(post)
        if answer is None:
            return self._hand_over(post)
        if self._barrier is None:
            return answer
        # If the rows may be stale, the application forwards a registration to the primary.
        return _later(
            self._barrier,
            lambda fresh: (self._answer_registered(post) if fresh else None) or self._hand_over(post),
        )

    def _find_route(self, path: bytes) -> _Route | None:
        """Return the route of a POST that the application can answer past ASGI. Raises 400."""
        target = parse(path, b"")
        found = self._app.find("POST", target.segments)
        name = None if found is None else found.path.get("subject")
        if found is None or name is None:
            return None
        subject = Subject.parse(name)
        may_be_plain = self._registered and len(path) <= _PATH_BYTES_MAX
        plain = PLAIN_POSTS.get(found.resource.path) if may_be_plain else None
        keys = None if plain is None else keys_of(subject)
        return _Route(found.resource, target, found.path, subject, plain, keys)

    def _answer_registered(self, post: _Post) -> Answer | None:
        """Return the answer to a plain POST of what is registered already."""
        plain, keys = post.route.plain, post.route.keys
        if plain is None or keys is None:
            return None
        preferences, body = post.preferences, post.request.body
        try:
            with self._view() as view:
                found = registered_schema(
                    view, plain, keys, post.query, body, self._bodies, preferences.access
                )
                applied = view.applied()
        except RegistryError:
            return None
        return self._answers.plain(found, applied, preferences, plain.route)

    def _hand_over(self, post: _Post) -> Running:
        """Return the application's answer, which begins where the fast path ends."""
        request, client, preferences, route, query = post
        parsed = self._bodies.newest
        if parsed is not None and parsed.body is not request.body:
            parsed = None
        if parsed is not None and parsed.schema is not None and self._app.parser is not None:
            self._app.parser.put(*parsed.schema)  # so that it is not parsed again
        self._bodies.newest = None
        path, _, raw_query = request.target.partition(b"?")
        context = RequestContext(
            "POST", path, raw_query, request.headers,
            request_id=preferences.request_id or self._answers.next_id(),
            peer=Credentials(preferences.authorization, client.certificate, client.host),
            proxies=self._proxies, target=route.target._replace(query=query), path=route.path,
            subject=route.subject, admission=preferences.admitted.admission,
            media_type=preferences.media_type, body=request.body,
            schema_request=None if parsed is None else parsed.request, plain=True,
        )  # fmt: skip
        return self._answer_by_app(route.resource, context)

    async def _answer_by_app(self, resource: Resource, context: RequestContext) -> Answer:
        answer = await self._app.answer(resource, context)
        body, headers, media_type = answer.body, answer.headers, answer.media_type
        # The rows were read before, or an error needed none.
        applied = self._seen() if answer.offset is None else answer.offset
        varies = headers == VARY
        if (headers and not varies) or self._cors or not (body and media_type):
            typed = ((b"content-type", media_type),) if body and media_type else ()
            whole = with_standard((*typed, *headers), context.request_id, applied)
            printed = lines(self._extra.apply([*whole, *self._cors]))
        else:
            printed = b"%sx-request-id: %s\r\nx-registry-offset: %d\r\n" % (
                self._answers.head(media_type, varies=varies), context.request_id, applied,
            )  # fmt: skip
        who = context.principal, context.kind
        return Answer(answer.status, printed, body, context.route, context.request_id, *who)


@cache_by_bytes(bytes_max=1024 * 1024, key_bytes_max=128, value_bytes=8192)
def _parsed_query(query: bytes) -> Query:
    return parse(b"", query).query


def _later(barrier: ReadBarrier, answer: Callable[[bool], Answer | Running | None]) -> Later:
    """Defer ``answer`` until it is known if the rows are as new as the log, which it gets as its argument."""

    def later(answered: Answered) -> None:
        def on_reply(fresh: bool) -> None:
            try:
                found = answer(fresh)
            except Exception:
                _log.exception("unexpected error; the request is left to the application")
                found = None
            answered(found)

        barrier.then(on_reply)

    return later
