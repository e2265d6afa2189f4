"""A cache of results, bounded by their measured bytes."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable

import orjson
import pytest

from registry.api import media_types
from registry.api.app import create_app
from registry.api.request_target import cache_by_bytes
from registry.reader.fast_path import dispatch, reads, registered
from registry.reader.fast_path.dispatch import FastPaths
from tests.api.driver import ListBackend

MB = 1024 * 1024


def test_what_was_given_is_remembered_while_there_is_room() -> None:
    seen: list[bytes] = []

    @cache_by_bytes(bytes_max=4 * 1024, key_bytes_max=512)
    def length(key: bytes) -> int:
        seen.append(key)
        return len(key)

    assert [length(b"a"), length(b"a"), length(b"x" * 513), length(b"x" * 513)] == [1, 1, 513, 513]
    assert seen == [b"a", b"x" * 513, b"x" * 513]
    for number in range(4):
        length(b"%d" % number)
    assert length(b"a") == 1
    assert seen.count(b"a") == 2


def routes() -> Callable[[bytes], object]:
    """Return the cache of routes of a fast path."""
    backend = ListBackend()
    fast_paths = FastPaths(backend.view, create_app(backend), seen=lambda: 0, cache_max_age_s=0)  # type: ignore[arg-type]
    return fast_paths._routes


@pytest.mark.parametrize(
    ("ask", "wrap"),
    [
        (registered._plain_config, lambda text: orjson.dumps({"alias": text.decode()})),
        (dispatch._parsed_query, lambda text: b"normalize=" + text),
        (routes(), lambda text: b"/subjects/" + text + b"/versions"),
        (reads._keys, lambda text: b"/subjects/" + text + b"/versions/latest"),
        (reads._filter, lambda text: b"subject=" + text),
        (media_types.negotiate, lambda text: b"application/json;x=" + text),
    ],
    ids=["configs", "queries", "places", "latest", "by id", "types"],
)
@pytest.mark.parametrize("size", [900, 32_000])
def test_clients_cannot_fill_it_with_long_texts(
    ask: Callable[[bytes], object], wrap: Callable[[bytes], bytes], size: int
) -> None:
    texts = 40 * MB // size if size > 1000 else 5_000
    tracemalloc.start()
    try:
        for _ in range(texts):
            ask(wrap(os.urandom(size // 2).hex().encode()))
        assert tracemalloc.get_traced_memory()[0] < 20 * MB
    finally:
        tracemalloc.stop()
