"""The properties of an answer that a request's headers ask for, the principal, and the answer's headers."""

from __future__ import annotations

import itertools
import uuid
from typing import NamedTuple

from registry.api.answers import STANDARD_HEADERS, VARY
from registry.api.browsers import FROM_PAGES, HOST, PageGuard, ResponseHeaders
from registry.api.media_types import PRODUCED, check_consumed, negotiate
from registry.domain.errors import RegistryError
from registry.http1.messages import Answer, Client, Header, Request, lines
from registry.security.gate import EVERYONE, FULL_ACCESS, OPEN_GATE, Access, Admission, Credentials, Gate

STANDARD_KIND = PRODUCED[0]
GZIP_BYTES_MIN = 16 * 1024  # larger bodies are worth compressing, which the application does
_new = tuple.__new__
# Headers that only the application understands.
_LEFT = (
    frozenset({b"if-match", b"if-none-match", b"x-registry-min-offset", b"x-forward", b"x-requested-with"})
    | FROM_PAGES
)
_READ = (
    frozenset({b"accept", b"accept-encoding", b"authorization", b"content-type", b"x-request-id", HOST})
    | _LEFT
)


class Preferences(NamedTuple):
    """The answer's properties that a request's headers ask for."""

    media_type: bytes
    request_id: bytes  # the client's own; empty until one is generated
    gzip: bool
    authorization: bytes = b""
    principal: str = ""
    kind: str = ""  # of the principal
    access: Access = FULL_ACCESS  # of the principal
    admission: Admission = EVERYONE


class _Admitted(NamedTuple):
    """Preferences whose credentials the gate has known last."""

    preferences: Preferences
    certificate: str
    credentials: Credentials
    admission: Admission | None
    result: Preferences  # with the principal


class RequestHeaders:
    """Reads the headers of requests, most of which have those of the one before."""

    def __init__(self, guard: PageGuard, gate: Gate) -> None:
        """Leave to the application what ``guard`` refuses, and credentials that ``gate`` does not know."""
        self._guard = guard
        self._gate = None if gate is OPEN_GATE else gate
        self._headers: list[Header] = []
        self._preferences: Preferences | None = self._read([])
        nothing = Preferences(STANDARD_KIND, b"", gzip=False)
        self._admitted = _Admitted(nothing, "", Credentials(), None, nothing)

    def preferences(self, request: Request, client: Client) -> Preferences | None:
        """Return what the headers ask for, or ``None`` if they ask for more than plain answers.

        ``None`` too for credentials that are not known, which the cache of headers says nothing about.
        """
        # Most clients send the same headers, so the last ones are cached.
        headers = request.headers
        if headers is not self._headers:
            if headers != self._headers:
                self._preferences = self._read(headers)
            self._headers = headers
        preferences = self._preferences
        if preferences is None or self._gate is None:
            return preferences
        # A client's requests show the same credentials, and the gate returns the same admission for them.
        before, certificate, credentials, known, admitted = self._admitted
        if preferences is not before or client.certificate != certificate:
            certificate, known = client.certificate, None
            credentials = Credentials(preferences.authorization, certificate)
        admission = self._gate.cached_admission(credentials)
        if admission is None:
            return None
        if admission is not known:
            admitted = preferences._replace(
                principal=admission.principal.name, kind=admission.kind,
                access=admission.access, admission=admission,
            )  # fmt: skip
            self._admitted = _Admitted(preferences, certificate, credentials, admission, admitted)
        return admitted

    def _read(self, headers: list[Header]) -> Preferences | None:
        accept, gzip = b"", False
        content_type = request_id = authorization = None
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
            elif name == b"authorization":
                if authorization is not None:
                    return None
                authorization = value
            elif request_id is not None:
                return None
            else:
                request_id = value.strip()
        media_type = STANDARD_KIND
        if accept or content_type:
            try:
                check_consumed(content_type)
                media_type = negotiate(accept or b"*/*")
            except RegistryError:
                return None
        return Preferences(media_type, request_id or b"", gzip, authorization or b"")


class AnswerHeaders:
    """Prints the headers of answers, and their request ids."""

    def __init__(self, extra: ResponseHeaders, cache_max_age_s: int) -> None:
        """``extra``: headers of every answer. ``cache_max_age_s``: of lasting ones; 0 if they are none."""
        self._extra = extra
        self._heads: dict[tuple[bytes, bool, bool], bytes] = {}
        self._lasting = [(b"cache-control", b"max-age=%d" % cache_max_age_s)] if cache_max_age_s else []
        # The random part of a UUID; completing it by a counter is much cheaper than another UUID.
        self._identity = str(uuid.uuid4())[:-12].encode()
        self._numbers = itertools.count()

    def next_id(self) -> bytes:
        """Return a new request id."""
        return b"%b%012x" % (self._identity, next(self._numbers))

    def head(self, media_type: bytes, *, lasting: bool, varies: bool = False) -> bytes:
        """Return the lines that all answers of a kind have.

        ``lasting``: their data never changes. ``varies``: they may be compressed.
        """
        head = self._heads.get((media_type, lasting, varies))
        if head is None:
            own = self._lasting if lasting else []
            standard = [each for each in STANDARD_HEADERS if not (own and each[0] == b"cache-control")]
            vary = VARY if varies else ()
            headers = self._extra.apply([(b"content-type", media_type), *vary, *standard, *own])
            head = self._heads[media_type, lasting, varies] = lines(headers)
        return head

    def plain(
        self, body: bytes | None, applied: int, preferences: Preferences, route: str, more: bytes = b""
    ) -> Answer | None:
        """Return the answer with a body from the rows at ``applied``, or ``None`` to leave it to others.

        ``more``: further lines of the header.
        """
        if body is None or (preferences.gzip and len(body) >= GZIP_BYTES_MIN):
            return None
        request_id = preferences.request_id or self.next_id()
        headers = b"%sx-request-id: %s\r\nx-registry-offset: %d\r\n%s" % (
            self.head(preferences.media_type, lasting=False), request_id, applied, more,
        )  # fmt: skip
        # The named tuple's own constructor takes three times as long.
        principal, kind = preferences.principal, preferences.kind
        return _new(Answer, (200, headers, body, route, request_id, principal, kind))
