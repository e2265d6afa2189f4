"""The cache of parsed header blocks."""

from __future__ import annotations

from registry.http1.messages import Request
from registry.http1.reading import HeaderCache


def remember(cache: HeaderCache, token: str) -> bytes:
    """Let the cache see a request with this token; return the request's bytes."""
    headers = [(b"host", b"a"), (b"authorization", token.encode())]
    data = b"GET /subjects HTTP/1.1\r\nHost: a\r\nAuthorization: %b\r\n\r\n" % token.encode()
    cache.remember(data, Request(b"GET", b"/subjects", headers, b"", "1.1", True))
    return data


def test_headers_with_a_bearer_token_are_cached() -> None:
    cache = HeaderCache()
    request = cache.read(remember(cache, "Bearer " + "x" * 3000))
    assert request is not None
    assert request.headers[1] == (b"authorization", b"Bearer " + b"x" * 3000)
    assert cache.read(remember(HeaderCache(), "Bearer " + "y" * 3000)) is None


def test_the_blocks_of_a_connection_are_bounded_together() -> None:
    cache = HeaderCache()
    requests = [remember(cache, f"Bearer {number}" + "x" * 1800) for number in range(10)]
    assert [cache.read(data) is not None for data in requests] == [False] * 8 + [True] * 2
    assert cache.read(remember(cache, "x" * 5000)) is None
    small = [remember(cache, f"Bearer {number}") for number in range(10)]
    assert [cache.read(data) is not None for data in small] == [False] * 6 + [True] * 4
