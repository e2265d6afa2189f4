"""Stored entries of the history: small, and readable by later releases."""

from __future__ import annotations

import msgspec
from hypothesis import given

from registry.domain.events.derivation import event_of
from registry.domain.events.event import Event, Kind
from registry.domain.fold.fold import owner
from registry.domain.history import entries
from registry.domain.history.entries import event_for, packed_owner, slice_of, unpacked
from registry.domain.log_format.records import Record, schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject
from registry.domain.rows.spans import Span
from tests.unit.random_logs import logs


@given(logs)
def test_every_event_is_read_as_it_was_derived(log: list[Record]) -> None:
    packed = slice_of(0, log, 200).entries
    for record, (key, value) in zip(log, packed, strict=True):
        found, event = unpacked(key, value), event_of(record)
        assert found.offset == record.offset
        subject = None if event is None else event.owner
        if subject is not None:
            assert packed_owner(subject) == owner(record.key)
            assert event_for(found, subject) == event
        elif event is None:
            assert found.event is None


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
