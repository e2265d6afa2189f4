"""The properties of an answer that the headers of a request ask for, and the principal that they name."""

from __future__ import annotations

from typing import NamedTuple

from registry.api.browsers import FROM_PAGES, HOST, PageGuard
from registry.api.media_types import PRODUCED, check_consumed, negotiate
from registry.domain.errors import RegistryError
from registry.http1.messages import Client, Header, Request
from registry.security.gate import EVERYONE, FULL_ACCESS, OPEN_GATE, Access, Admission, Credentials, Gate

STANDARD_KIND = PRODUCED[0]
# Headers that only the application understands.
_LEFT = frozenset({b"if-none-match", b"x-registry-min-offset", b"x-forward"}) | FROM_PAGES
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
            principal, access = admission.principal.name, admission.access
            admitted = preferences._replace(principal=principal, access=access, admission=admission)
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
