"""The properties of an answer that a request's headers ask for, the principal, and the answer's headers."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from registry.api.answers import STANDARD_HEADERS, VARY
from registry.api.browsers import FROM_PAGES, HOST, PageGuard, ResponseHeaders
from registry.api.media_types import PRODUCED, check_consumed, negotiate
from registry.base.observe.metrics import Headers
from registry.domain.errors import RegistryError
from registry.http1.messages import Answer, Client, Header, lines
from registry.security.gate import NO_PASS, OPEN_GATE, OPEN_PASS, Access, Credentials, Pass, PassGate

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


@dataclass(frozen=True, slots=True)  # Read with every request: the attributes of a named tuple take longer.
class Preferences:
    """The answer's properties that a request's headers ask for, and the principal."""

    media_type: bytes
    request_id: bytes  # the client's own; empty until one is generated
    gzip: bool
    authorization: bytes
    admitted: Pass
    access: Access  # of the principal
    principal: str = ""
    kind: str = ""  # of the principal


class RequestHeaders:
    """Reads the headers of requests: once those that several requests of a connection share."""

    def __init__(self, guard: PageGuard, gate: PassGate) -> None:
        """Leave to the application what ``guard`` refuses, and credentials that ``gate`` does not know."""
        self._guard = guard
        self._gate = None if gate is OPEN_GATE else gate
        self._unknown = OPEN_PASS if gate is OPEN_GATE else NO_PASS
        # The headers and certificate of the connection whose headers were new last.
        self._last: tuple[Headers, str] | None = None

    def preferences(self, headers: Headers, client: Client) -> Preferences | None:
        """Return what the headers ask for, or ``None`` if they ask for more than plain answers.

        ``None`` too for credentials that are not known.
        """
        found: Preferences | None
        try:
            found = headers.preferences
        except AttributeError:
            found = headers.preferences = self._find(headers, client.certificate)
        if found is None or self._gate is None or self._gate.holds(found.admitted):
            return found
        # No other connection has the same headers, and a connection has one certificate.
        admitted = self._gate.find_pass(Credentials(found.authorization, client.certificate))
        if admitted is None:
            return None
        admission = admitted.admission
        found = headers.preferences = replace(
            found, admitted=admitted, access=admission.access,
            principal=admission.principal.name, kind=admission.kind,
        )  # fmt: skip
        return found

    def _find(self, headers: Headers, certificate: str) -> Preferences | None:
        # Most clients send the same headers, and some open a connection for each request.
        last, new = self._last, (headers, certificate)
        found: Preferences | None
        found = last[0].preferences if last is not None and last == new else self._read(headers)
        self._last = new
        return found

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
        unknown = self._unknown
        return Preferences(
            media_type, request_id or b"", gzip, authorization or b"", unknown, unknown.admission.access
        )


class AnswerHeaders:
    """Prints the headers of answers, and their request ids."""

    def __init__(self, extra: ResponseHeaders, cache_max_age_s: int) -> None:
        """``extra``: headers of every answer. ``cache_max_age_s``: of lasting ones; 0 if they are none."""
        self._extra = extra
        self._heads: dict[tuple[bytes, bool], bytes] = {}
        own = [(b"cache-control", b"max-age=%d" % cache_max_age_s)] if cache_max_age_s else []
        # The lines that all answers have whose data never changes, by media type.
        self.lasting_heads = {kind: self._print(kind, (), own) for kind in PRODUCED}
        # Returns a new request id.
        self.next_id: Callable[[], bytes] = _request_ids().__next__

    def head(self, media_type: bytes, *, varies: bool = False) -> bytes:
        """Return the lines that all answers of a kind have; ``varies``: they may be compressed."""
        head = self._heads.get((media_type, varies))
        if head is None:
            head = self._heads[media_type, varies] = self._print(media_type, VARY if varies else (), ())
        return head

    def _print(self, media_type: bytes, vary: Iterable[Header], own: Iterable[Header]) -> bytes:
        names = {name for name, _ in own}
        standard = [each for each in STANDARD_HEADERS if each[0] not in names]
        return lines(self._extra.apply([(b"content-type", media_type), *vary, *standard, *own]))

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
            self.head(preferences.media_type), request_id, applied, more,
        )  # fmt: skip
        # The named tuple's own constructor takes three times as long.
        principal, kind = preferences.principal, preferences.kind
        return _new(Answer, (200, headers, body, route, request_id, principal, kind))


def _request_ids() -> Iterator[bytes]:
    """Yield UUIDs with one random part: completing it by a counter is much cheaper than another UUID."""
    identity = str(uuid.uuid4())[:-12].encode()
    last_digits = [b"%03x" % number for number in range(1 << 12)]
    for number in itertools.count():
        yield from map((b"%b%09x" % (identity, number)).__add__, last_digits)
