"""Snapshot requests: when they append a marker, and when the newest one suffices."""

from __future__ import annotations

import orjson

from registry.domain.commands import RequestSnapshot, repeatable
from registry.domain.decide.own_records import Marker, newest_marker
from registry.domain.log_format.records import SNAPSHOT_KEY
from tests.unit.small_registry import SmallRegistry


def marker(small: SmallRegistry) -> Marker:
    found = newest_marker(small.view)
    assert found is not None
    return found


def test_a_marker_says_where_the_snapshot_ends() -> None:
    small = SmallRegistry()
    assert newest_marker(small.view) is None
    small.append(b'{"keytype":"NOOP","magic":0}', None)
    assert small.submit(RequestSnapshot("aa11")) is None
    assert [(each.key, each.value) for each in small.last] == [(SNAPSHOT_KEY, b'{"request":"aa11"}')]
    assert marker(small) == Marker("aa11", 1, 1_001)
    assert marker(small).end == 2


def test_one_that_waits_for_its_build_does_for_all() -> None:
    small = SmallRegistry()
    small.submit(RequestSnapshot("aa11"))
    small.submit(RequestSnapshot("bb22"))
    assert (small.last, marker(small).request) == ([], "aa11")
    small.submit(RequestSnapshot("cc33", begun=0))
    assert (marker(small).request, marker(small).offset) == ("cc33", 1)
    small.submit(RequestSnapshot("dd44", begun=0))
    assert small.last == []


def test_the_same_request_is_never_made_twice() -> None:
    small = SmallRegistry()
    small.submit(RequestSnapshot("aa11"))
    small.submit(RequestSnapshot("aa11", begun=0))
    assert small.last == []
    assert repeatable(RequestSnapshot("aa11"))


def test_what_others_write_under_this_key_is_no_marker() -> None:
    small = SmallRegistry()
    for value in (b"{}", b'{"request":7}', b"[]", b"\xff"):
        small.append(SNAPSHOT_KEY, value)
        assert newest_marker(small.view) is None
    small.submit(RequestSnapshot("aa11"))
    assert orjson.loads(small.last[0].value or b"") == {"request": "aa11"}
