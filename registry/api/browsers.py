"""Requests from web pages, and headers that the operator sets on every answer.

Two attacks need no bug in the registry. A page of another site can send writes that browsers consider
simple, such as a form or a POST without a content type (cross-site request forgery). And if a page's host
name is made to resolve to this machine, the browser takes the page for one of this server (DNS rebinding).
Browsers send enough to refuse both: ``Origin`` and ``Sec-Fetch-Site``, which pages cannot forge, and
``Host``, which is the host of the page. Other clients send neither of the first two, and a host that somebody
has configured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from email.utils import formatdate
from typing import NamedTuple
from urllib.parse import urlsplit

from registry.domain.errors import FORBIDDEN
from registry.security.exposure import is_loopback

from .answers import Header

# Headers that differ between answers, so that answers prepared in advance cannot include them.
_OF_EACH_ANSWER = frozenset(
    {
        b"x-request-id", b"x-registry-offset", b"etag", b"warning", b"content-type", b"content-encoding",
        b"vary", b"location", b"retry-after", b"www-authenticate", b"allow",
    }
)  # fmt: skip
# Headers that the HTTP server writes itself, at most once.
_OF_THE_SERVER = frozenset({b"date", b"content-length", b"connection", b"transfer-encoding"})


class _Rule(NamedTuple):
    # As the operator wrote it, and in lower case.
    name: bytes
    key: bytes
    replaces: bool
    value: Callable[[], bytes]


class ResponseHeaders:
    """Applies the operator's rules to the headers of an answer.

    Names keep the case in which the operator wrote them. No header is sent twice because both the operator
    and this server have it: the operator's replaces it, except that ``add`` leaves alone what describes the
    answer itself, and adds to ``Vary``. What the HTTP server writes (:data:`_OF_THE_SERVER`) has no rules.
    """

    def __init__(self, rules: Sequence[tuple[str, str, str]] = ()) -> None:
        """``rules``: action (``set``, ``add``, ``setDate``, ``addDate``), name and value, in order."""
        self._rules = [rule for rule in (_rule(*each) for each in rules) if rule.key not in _OF_THE_SERVER]
        varying = any(action.endswith("Date") for action, _, _ in rules)
        named = {rule.key for rule in self._rules}
        # True if the result for the other headers is the same for every answer.
        self.constant = not varying and _OF_EACH_ANSWER.isdisjoint(named)

    def apply(self, headers: Iterable[Header]) -> list[Header]:
        """Return ``headers`` with the rules applied."""
        found = list(headers)
        operators: set[bytes] = set()
        for rule in self._rules:
            value = rule.value()
            own = [each for name, each in found if name.lower() == rule.key]
            if own and not rule.replaces and rule.key not in operators:
                if rule.key == b"vary":
                    value = b", ".join((*own, value))
                elif rule.key in _OF_EACH_ANSWER:
                    continue
            if rule.replaces or rule.key not in operators:
                found = [each for each in found if each[0].lower() != rule.key]
            operators.add(rule.key)
            found.append((rule.name, value))
        return found


def _rule(action: str, name: str, value: str) -> _Rule:
    encoded = value.encode("latin-1")
    return _Rule(
        name.encode(),
        name.lower().encode(),
        action.startswith("set"),
        _date(int(value)) if action.endswith("Date") else lambda: encoded,
    )


def _date(offset_ms: int) -> Callable[[], bytes]:
    return lambda: formatdate(time.time() + offset_ms / 1000, usegmt=True).encode()


# Headers that only browsers send, or that decide whether a host is allowed.
FROM_PAGES = frozenset({b"origin", b"sec-fetch-site"})
HOST = b"host"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
# Response headers that pages may read in addition to those that they always may.
EXPOSED = (
    b"etag", b"link", b"retry-after", b"warning", b"x-registry-at-offset", b"x-registry-equal-to",
    b"x-registry-offset", b"x-request-id",
)  # fmt: skip
_METHODS = b"GET, HEAD, POST, PUT, DELETE"
_MAX_AGE_S = b"3600"
_ANY = "*"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE = frozenset({b"same-origin", b"none"})


class PageGuard:
    """Refuses requests to foreign hosts, and writes from pages of foreign origins."""

    def __init__(self, hosts: Collection[str] = (), origins: Collection[str] = ()) -> None:
        """``hosts``: names that ``Host`` may have, without ports; none or ``*`` allows all.

        ``origins``: whose pages may write, as browsers send them; ``*`` allows all.
        """
        self._hosts = frozenset() if _ANY in hosts else frozenset(each.lower() for each in hosts)
        self._origins = frozenset(each.encode() for each in origins)
        self._any_origin = _ANY in origins

    def allows_host(self, value: bytes) -> bool:
        """Return true if requests may have this ``Host`` header."""
        return not self._hosts or _name_of(value) in self._hosts

    def check(self, method: str, headers: Iterable[Header]) -> None:
        """Raise 403 for a request to a foreign host, or a write from a foreign page."""
        given = dict(headers)
        host = given.get(HOST)
        if host is not None and not self.allows_host(host):
            raise FORBIDDEN(
                f"The host {_name_of(host)[:255]!r} is not allowed; add it to the setting allowed_hosts"
            )
        if method not in _SAFE and self.is_foreign(given):
            origin = given.get(b"origin", b"another site")[:255].decode("latin-1")
            raise FORBIDDEN(f"Pages of {origin} may not write; add the origin to the setting cors_origins")

    def is_foreign(self, given: dict[bytes, bytes]) -> bool:
        """Return true if a page of an origin that is not allowed has sent these headers."""
        origin, site = given.get(b"origin"), given.get(b"sec-fetch-site")
        if self._any_origin or (origin is not None and origin in self._origins):
            return False
        if site is not None:
            return site.strip().lower() not in _OWN_SITE
        # Browsers omit Sec-Fetch-Site on plain HTTP. A page cannot add X-Forwarded-Host without asking first.
        return origin is not None and _host_of(origin) not in (
            given.get(HOST),
            given.get(b"x-forwarded-host"),
        )


_OWN_PAGES = PageGuard()


def is_own_page(headers: Iterable[Header]) -> bool:
    """Return true for a request that a script of a page of this origin has sent, reads included.

    Scripts of other origins cannot add the header without asking first, which no setting allows them.
    """
    given = dict(headers)
    return b"x-requested-with" in given and not _OWN_PAGES.is_foreign(given)


def _host_of(origin: bytes) -> bytes:
    return origin.partition(b"://")[2]


def _name_of(host: bytes) -> str:
    """Return the name in ``Host`` without its port, in lower case; an IPv6 address keeps its brackets."""
    text = host.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0].removesuffix(".")


def hosts_of(allowed: Collection[str], listen_hosts: Collection[str], advertised: str) -> tuple[str, ...]:
    """Return the hosts that requests may name: the setting's, or loopback's if only this machine can connect.

    ``listen_hosts``: IPv6 addresses without brackets. ``advertised``: a URL with a port, or empty.
    """
    if allowed or not all(map(is_loopback, listen_hosts)):
        return tuple(allowed)
    other = urlsplit(advertised).netloc.rpartition(":")[0]
    return tuple(filter(None, (*LOOPBACK_NAMES, *listen_hosts, other)))


class Cors:
    """Headers that let pages of other origins use the API; none unless origins are allowed.

    Confluent 8.x has the same as ``access.control.allow.origin``; as there, credentials are never allowed.
    """

    def __init__(self, origins: Collection[str]) -> None:
        """``origins`` as browsers send them; ``*`` allows all."""
        self._any = _ANY in origins
        self._origins = frozenset(each.encode() for each in origins)

    def headers(self, request: Iterable[Header], *, options: bool = False) -> tuple[Header, ...]:
        """Return the headers of the answer to a request with these headers; ``options``: a preflight."""
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
