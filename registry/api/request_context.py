"""The facts about one request, established once and passed from layer to layer.

The fast path makes it for requests that it has looked at and cannot answer, with all that it has found out.
The application makes it for all others, and fills it in on the way.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers

from registry.domain.commands import Condition, Register
from registry.domain.errors import BAD_REQUEST
from registry.domain.model import Subject
from registry.security.client_address import TrustedProxies
from registry.security.gate import Admission, Credentials

from .past import PastRows
from .request_target import Target

STATE = "registry"  # key in the ASGI scope
_Header = tuple[bytes, bytes]


def request_id(headers: Iterable[_Header]) -> bytes:
    """Return ``X-Request-ID``: the request's if there is exactly one, not blank, else a new UUID."""
    given = [value.strip() for name, value in headers if name == b"x-request-id"]
    return given[0] if len(given) == 1 and given[0] else str(uuid.uuid4()).encode()


# Conditions travel with their command and wait in its queues.
TAGS_MAX = 16
# As a compressed answer has it, so that no two answers with different bytes share a tag (RFC 9110, 8.8.3.3).
GZIP_TAG = "-gzip"
_TAG = re.compile(r'[ \t]*(W/)?"([!#-~\x80-\xff]{0,256})"[ \t]*(?:,|$)')


def condition_of(headers: Headers) -> Condition | None:
    """Return the condition in ``If-Match`` and ``If-None-Match`` of a write. Raises 400.

    ``If-Match`` compares strongly, so weak tags in it match nothing (RFC 9110, section 8.8.3.2).
    """
    match, none_match = _tags(headers, "If-Match", strong=True), _tags(headers, "If-None-Match", strong=False)
    return None if match is None and none_match is None else Condition(match, none_match)


def _tags(headers: Headers, name: str, *, strong: bool) -> list[str] | None:
    text = ",".join(headers.getlist(name)).strip()
    if name not in headers or text == "*":
        return [text] if text else None
    found: list[re.Match[str]] = []
    at = 0
    while at < len(text):
        tag = _TAG.match(text, at)
        if tag is None or len(found) == TAGS_MAX:
            break
        found.append(tag)
        at = tag.end()
    if at < len(text) or not found:
        raise BAD_REQUEST(f'{name} must be * or up to {TAGS_MAX} entity tags such as "3-1042", with quotes')
    return [each[2].removesuffix(GZIP_TAG) for each in found if not (strong and each[1])]


class RequestContext:
    """One request: the facts about it, and its outcome."""

    __slots__ = (
        "_headers", "_proxies", "admission", "args", "body", "condition", "error_code", "fields", "made",
        "media_type", "method", "offset", "past", "path", "peer", "plain", "query", "raw_path", "request_id",
        "results", "route", "schema_request", "subject", "target", "writes",
    )  # fmt: skip

    def __init__(
        self,
        method: str,
        raw_path: bytes,
        query: bytes,
        fields: Sequence[_Header],
        *,
        request_id: bytes,
        peer: Credentials,
        proxies: TrustedProxies,
        target: Target | None = None,
        path: Mapping[str, str] | None = None,
        subject: Subject | None = None,
        admission: Admission | None = None,
        media_type: bytes | None = None,
        body: bytes | None = None,
        schema_request: Register | None = None,
        plain: bool = False,
    ) -> None:
        """Hold what is known already.

        ``raw_path``, ``query``: as sent. ``fields``: the headers, names in lower case. ``peer``: the
        credentials, with the address at the other end of the connection, behind which ``proxies`` name the
        client. ``target``: decoded, as in the default context. ``path``: the parameters in the path;
        ``subject``: the parsed one of them. ``media_type``: of the answer, negotiated. ``schema_request``:
        what the body requests, without a subject. ``plain``: it has no header that the fast path leaves to
        the application.
        """
        self.method = method
        self.raw_path = raw_path
        self.query = query
        self.fields = fields
        self.request_id = request_id
        self.peer = peer
        self._proxies = proxies
        self.target = target
        self.path: Mapping[str, str] = {} if path is None else path
        self.subject = subject
        self.admission = admission
        self.media_type = media_type
        self.body = body
        self.schema_request = schema_request
        self.plain = plain
        self._headers: Headers | None = None
        self.condition: Condition | None = None  # of a write
        # What became of it, for the answer's headers, the audit log and metrics.
        self.route = ""  # the path's template
        self.writes = False  # a write, unless it was answered from rows and nothing was to be done
        self.args: Mapping[str, Any] = {}  # the query parameters that the operation knows, for writes
        self.past: PastRows | None = None  # the rows of the past that it reads
        self.error_code = 0
        self.offset: int | None = None  # at which the answer's rows or its write are visible
        self.results = b""  # the answer to a batch of writes
        self.made = ""  # the id of the object that a write has created

    @classmethod
    def of(cls, scope: MutableMapping[str, Any], proxies: TrustedProxies) -> RequestContext:
        """Return the context of an ASGI request with nothing but its headers, and keep it in the scope."""
        fields, client = scope["headers"], scope.get("client")
        # Two headers are no valid one: proxies and this server could disagree about which of them counts.
        authorization = b", ".join([value for name, value in fields if name == b"authorization"])
        certificate = scope.get("extensions", {}).get("tls", {}).get("principal", "")
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        context = scope[STATE] = cls(
            scope["method"], raw_path.partition(b"?")[0], scope.get("query_string", b""), fields,
            request_id=request_id(fields),
            peer=Credentials(authorization, certificate, client[0] if client else ""), proxies=proxies,
        )  # fmt: skip
        return context

    @property
    def headers(self) -> Headers:
        """The headers by name."""
        if self._headers is None:
            self._headers = Headers(raw=list(self.fields))
        return self._headers

    @property
    def address(self) -> str:
        """The client's address, as trusted proxies name it; empty if it has none."""
        return self._proxies.client(self.peer.address, self.fields) if self.peer.address else ""

    @property
    def credentials(self) -> Credentials:
        """The credentials, with the client's address."""
        return self.peer._replace(address=self.address)

    @property
    def shown_path(self) -> str:
        """The path as text, decoded where it can be."""
        return unquote_to_bytes(self.raw_path).decode(errors="replace")

    @property
    def principal(self) -> str:
        """The name of the principal that sent the request; empty if it is unknown."""
        return "" if self.admission is None else self.admission.principal.name

    @property
    def kind(self) -> str:
        """The kind of that principal; empty without authentication."""
        return "" if self.admission is None else self.admission.kind
