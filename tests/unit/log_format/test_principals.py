"""Principals of records: any name can be stored, and any bytes can be read."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from registry.domain.log_format.headers import (
    PRINCIPAL_BYTES_MAX,
    PRINCIPAL_ROOM_BYTES,
    pack_principal,
    requested_by,
    unpack_principal,
)
from registry.domain.log_format.records import Entry

LETTERS = st.characters(categories=("L", "N", "P", "S"))


@given(st.text(LETTERS, max_size=64))
@example("CN=alice,OU=Dienste,O=Bäckerei €,C=DE")
@example("service-account/プロデューサー")
def test_a_name_is_read_as_it_was_stored(name: str) -> None:
    assert unpack_principal(pack_principal(name)) == name


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=400))
@example("x" * 10_000)
@example("€" * 10_000)
@example("a" * (PRINCIPAL_BYTES_MAX - 4) + "😀")
@example("\ud800alone\udfff")
@example("line\nbreak\x00\x7f\x85\u2028")
@example("")
def test_any_name_is_stored_within_the_bound_and_read_as_one_line(name: str) -> None:
    raw = pack_principal(name)
    assert len(raw) <= PRINCIPAL_BYTES_MAX
    assert bool(raw) == bool(name)
    raw.decode()  # never cut within a character
    check_shown(unpack_principal(raw))


@given(st.binary(max_size=2 * PRINCIPAL_BYTES_MAX))
@example(b"\xff\xfe\x80")
@example(b"\x80" * 10_000)
@example("€".encode() * 1_000 + b"\n")
@example("\u202eecila".encode())
def test_any_bytes_of_other_writers_are_read_as_one_line(raw: bytes) -> None:
    shown = unpack_principal(raw)
    check_shown(shown)
    assert bool(shown) == bool(raw)


def check_shown(name: str) -> None:
    """Check that a name can be an attribute of a CloudEvent and stand in a line of text."""
    assert len(name) <= PRINCIPAL_BYTES_MAX
    name.encode()
    assert len(name.splitlines()) <= 1
    assert not any(each < " " or "\x7f" <= each <= "\x9f" for each in name)
    assert not any(ord(each) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(each) <= 0xFDEF for each in name)


def test_a_name_that_is_too_long_says_so() -> None:
    assert unpack_principal(pack_principal("CN=" + "a" * 1_000)) == "CN=" + "a" * 250 + "…"


def test_the_records_of_a_request_name_its_sender() -> None:
    records = [Entry(b"a", b"1"), Entry(b"b", None)]
    assert requested_by("alice", records, 1_000) == [Entry(b"a", b"1", b"alice"), Entry(b"b", None, b"alice")]
    assert requested_by("", records, 1_000) == records


def test_a_record_that_has_no_room_for_a_name_stays_without_one() -> None:
    most = 1_000 - PRINCIPAL_ROOM_BYTES
    fits, large = Entry(b"k", b"v" * (most - 1)), Entry(b"k", b"v" * most)
    assert requested_by("alice", [fits, large], 1_000) == [fits._replace(principal=b"alice"), large]
