"""The cache of parsed header blocks."""

from __future__ import annotations

from collections import deque

from hypothesis import example, given
from hypothesis import strategies as st

from registry.base.observe.metrics import Headers
from registry.domain.errors import RegistryError
from registry.http1.messages import SHARED_TARGET_BYTES_MAX, Limits, Request
from registry.http1.parsing import RequestParser, Stage
from registry.http1.reading import HeaderCache

methods = st.sampled_from([b"GET", b"POST", b"PUT", b"HEAD", b"get"])
targets = st.sampled_from([b"/", b"/schemas/ids/1", b"/a?b=%20&c", b"/a b", b"*", b"", b"//\xff", b"/a#b"])
fields = st.lists(
    st.sampled_from([
        b"Authorization: Basic eA==", b"Authorization: Bearer " + b"x" * 887, b"Connection: close", b"A:b",
        b"Content-Length: 0", b"Content-Length: 2", b"Content-Length: 30", b"Transfer-Encoding: chunked",
    ]),
    max_size=3,
)  # fmt: skip
LIKE_A_HEAD = b" HTTP/1.1\r\nHost: a\r\n\r\n{}......"
bodies = st.sampled_from([b"", b"{}", LIKE_A_HEAD, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
odd = st.sampled_from([
    b"", b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b"G", b" HTTP/1.1\r\n", b"HTTP/1.0", b"\r\n\r\n", b"\xff",
])  # fmt: skip


def request(method: bytes, target: bytes, lines: list[bytes], body: bytes) -> bytes:
    return b"\r\n".join([b"%b %b HTTP/1.1" % (method, target), b"Host: a", *lines, b"", body])


requests = st.builds(request, methods, targets, fields, bodies)


def parsed(data: bytes) -> Request | None:
    """Return the request in ``data`` if the parser finds that it is exactly one."""
    found: deque[Request | RegistryError] = deque()
    parser = RequestParser(Limits(), found)
    if parser.feed(data) is not None or len(found) != 1 or parser.stage is not Stage.IDLE:
        return None
    return found[0] if isinstance(found[0], Request) else None


def remember(cache: HeaderCache, token: str) -> bytes:
    """Let the cache see a request with this token; return the request's bytes."""
    headers = Headers([(b"host", b"a"), (b"authorization", token.encode())])
    data = b"GET /subjects HTTP/1.1\r\nHost: a\r\nAuthorization: %b\r\n\r\n" % token.encode()
    cache.remember(data, Request(b"GET", b"/subjects", headers, b"", "1.1", True))
    return data


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Return requests, and one of them or another one with a piece replaced, or cut short."""
    before = draw(st.lists(requests, min_size=1, max_size=3))
    whole = draw(st.sampled_from(before) | requests)
    begin = draw(st.integers(0, len(whole)))
    end = draw(st.integers(begin, min(begin + 30, len(whole))) | st.just(len(whole)))
    return before, whole[:begin] + draw(odd) + whole[end:]


@given(spoiled())
@example(([request(b"POST", b"/a", [b"Content-Length: 30"], LIKE_A_HEAD)], LIKE_A_HEAD[:-1]))
@example(([request(b"GET", b"/", [], b"")], request(b"GET", b"/ HTTP/1.1\r\nHost: b", [], b"")))
@example(([request(b"GET", b"/", [], b"")], 2 * request(b"GET", b"/", [], b"")))
def test_what_is_read_is_what_the_parser_finds(case: tuple[list[bytes], bytes]) -> None:
    before, data = case
    cache = HeaderCache()
    for each in before:
        found = parsed(each)
        if found is not None:
            cache.remember(each, found)
    for each in (*before, data):
        assert cache.read(each) in (None, parsed(each))


def test_headers_that_came_before_are_read_behind_other_first_lines_and_bodies() -> None:
    cache = HeaderCache()
    first = request(b"POST", b"/a", [b"Content-Length: 2"], b"{}")
    found = parsed(first)
    assert found is not None
    cache.remember(first, found)
    for method, body in ((b"POST", b"[]"), (b"GET", b"{}")):
        again = cache.read(request(method, b"/b?c", [b"Content-Length: 2"], body))
        assert again == (method, b"/b?c", found.headers, body, "1.1", True)
        assert again.headers is found.headers
    for data in (
        request(b"PUT", b"/a", [b"Content-Length: 2"], b"{}"),
        request(b"POST", b"/a", [b"Content-Length: 2"], b"{}{"),
        request(b"POST", b"/a", [b"Content-Length: 2"], b"{"),
        request(b"POST", b"/" + b"a" * SHARED_TARGET_BYTES_MAX, [b"Content-Length: 2"], b"{}"),
    ):
        assert cache.read(data) is None


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
