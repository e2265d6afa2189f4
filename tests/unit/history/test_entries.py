"""Stored entries of the history: small, and readable by later releases."""

from __future__ import annotations

from itertools import combinations

import msgspec
from hypothesis import given

from registry.domain.events import Event, Kind, event_of
from registry.domain.fold.fast_path import PlainRecords
from registry.domain.fold.fold import apply_all
from registry.domain.history import entries
from registry.domain.history.entries import OFFSET_BYTES, event_for, packed_owner, slice_of, unpack
from registry.domain.log_format.records import BARRIER_KEY, NOOP_KEY, Record, position_key, schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.log_format.webhooks import position_value
from registry.domain.model import Subject
from registry.domain.rows.memory_views import DictView, OverlayView
from registry.domain.rows.view import Span
from tests.unit.random_logs import logs, meaning


@given(logs)
def test_every_event_about_a_subject_or_a_context_is_read_as_it_was_derived(log: list[Record]) -> None:
    told = [event for event in map(event_of, log) if event is not None and event.owner is not None]
    packed = slice_of(0, log, 200).entries
    for event, (key, value) in zip(told, packed, strict=True):
        assert event.owner is not None
        assert key[:-OFFSET_BYTES] == packed_owner(event.owner)
        found = unpack(key, value)
        assert found.offset == event.offset
        assert event_for(found, event.owner) == event


@given(logs)
def test_entries_of_what_the_fold_has_parsed_are_those_of_the_records(log: list[Record]) -> None:
    changes: dict[bytes, bytes | None] = {}
    parsed: PlainRecords = {}
    apply_all(OverlayView(DictView([]), changes), log, changes, parsed)
    assert slice_of(0, log, 200, parsed) == slice_of(0, log, 200)


@given(logs)
def test_records_of_one_key_are_about_the_same_however_it_is_spelled(log: list[Record]) -> None:
    found = {(entry := unpack(*each)).offset: entry.about for each in slice_of(0, log, 200).entries}
    meanings = {each.offset: (type(key := meaning(each.key)), key) for each in log}
    for one, two in combinations(found, 2):
        assert (found[one] == found[two]) == (meanings[one] == meanings[two])


def test_deliveries_of_webhooks_and_records_of_the_cluster_leave_no_entries() -> None:
    said = [(position_key("hook"), position_value(7)), (BARRIER_KEY, b"{}"), (NOOP_KEY, None), (b"?", b"?")]
    part = slice_of(5, [Record(5 + at, 1000, *each) for at, each in enumerate(said)], 9)
    assert part == (Span(5, 5, 9), [])


def test_every_kind_and_member_of_events_can_be_stored() -> None:
    assert set(entries._KINDS) == set(Kind)
    told_by_the_key = {"offset", "context", "subject"}
    assert {each.name for each in msgspec.structs.fields(Event)} == {*entries._MEMBERS, *told_by_the_key}


def test_an_entry_has_these_bytes() -> None:
    """Later releases read them, too: kinds and members keep their places."""
    subject = Subject(".", "orders")
    value = schema_value(subject, 3, 7, '"int"')
    part = slice_of(5, [Record(5, 1_700_000_000_000, schema_key(subject, 3), value)], 6)
    ((key, value),) = part.entries
    assert part.span == Span(5, 5, 6)
    assert key == b".\x00orders\x00" + bytes(7) + b"\x05"
    assert value.hex() == "970b5f52906f" + "9500cf0000018bcfe568000307a44156524f"


def test_an_entry_with_a_principal_has_these_bytes() -> None:
    subject = Subject(".", "orders")
    record = Record(5, 1_700_000_000_000, schema_key(subject, 3), schema_value(subject, 3, 7, '"int"'), b"al")
    ((_, value),) = slice_of(5, [record], 6).entries
    assert value.hex() == "970b5f52906f" + "9d00cf0000018bcfe568000307a44156524f" + "c0" * 7 + "a2616c"
