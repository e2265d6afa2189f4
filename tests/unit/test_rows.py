"""Keys of rows: order, limits and owners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain import rows
from registry.domain.model import Subject
from registry.domain.rows import VersionRow, number, part, unnumber, unpart
from registry.domain.views import DictView

texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text("\0\1\2a\U0010ffff", max_size=80)
integers = st.integers(-(2**31), 2**31 - 1)


@given(texts)
def test_a_part_gives_its_text_again_unless_it_was_cut(text: str) -> None:
    packed = part(text)
    assert packed.endswith(b"\0")
    assert b"\0" not in packed[:-1]
    assert len(packed) <= rows.PART_MAX + 1
    cut = unpart(packed[:-1]) is None
    assert cut or unpart(packed[:-1]) == text
    assert not cut or len(text.encode().replace(b"\0", b"..").replace(b"\1", b"..")) > rows.PART_MAX


@given(texts, texts)
def test_parts_sort_like_their_texts(one: str, other: str) -> None:
    short = [text[:14] for text in (one, other)]
    assert (part(short[0]) < part(short[1])) == (short[0] < short[1])
    assert (part(one) == part(other)) == (one == other)


@given(st.lists(texts, max_size=3), st.lists(texts, max_size=3))
def test_a_sequence_of_parts_names_one_sequence_of_texts(one: list[str], other: list[str]) -> None:
    assert (b"".join(map(part, one)) == b"".join(map(part, other))) == (one == other)


def test_a_cut_part_keeps_its_beginning() -> None:
    long = "x" * 200
    assert part(long) != part(long + "y")
    assert part(long).startswith(rows.part_prefix("x" * 150))
    assert part("x" * rows.PART_MAX) == b"x" * rows.PART_MAX + b"\0"
    assert unpart(part("\1" * 61)[:-1]) is None


@given(integers, integers)
def test_numbers_sort_like_integers(one: int, other: int) -> None:
    assert unnumber(number(one)) == one
    assert (number(one) < number(other)) == (one < other)


@pytest.mark.parametrize(
    "prefix", [b"V", b"Va\xff", b"V\xff\xff", rows.id_prefix(".", 255), rows.id_prefix(".", 2**31 - 1)]
)
def test_after_a_prefix_comes_what_does_not_begin_with_it(prefix: bytes) -> None:
    assert prefix + b"\xff" * 9 < rows.after(prefix)
    view = DictView([(prefix, b""), (prefix + b"\xff\xff", b""), (rows.after(prefix), b"")])
    assert [key for key, _ in rows.scan_back(view, prefix)] == [prefix + b"\xff\xff", prefix]
    assert [key for key, _ in rows.scan(view, prefix)] == [prefix, prefix + b"\xff\xff"]


@given(
    texts.map(lambda text: "." + text.replace(":", "")), texts, integers, st.binary(min_size=16, max_size=16)
)
def test_every_key_names_its_owner_and_fits(context: str, name: str, version: int, md5: bytes) -> None:
    subject = Subject(context, name)
    own, contexts = part(context) + part(name), part(context) + part("")
    other = Subject("." + "\0" * 70, "\1" * 70)
    keys = {
        rows.version_key(subject, version): own,
        rows.id_key(subject, version, version, 2**63 - 1): own,
        rows.guid_key(subject, version, md5): own,
        rows.referrer_key(other, -1, subject, version): own,
        rows.association_key(subject, b"key"): own,
        rows.resource_name_prefix("\0" * 70, name) + rows.association_key(subject, b"key")[1:]: own,
        rows.resource_id_prefix("\1" * 70) + rows.association_key(subject, b"key")[1:]: own,
        rows.context_key(rows.CONTEXT, context): contexts,
        rows.context_key(rows.RESERVATION, context): contexts,
        rows.cluster_key("barrier"): b"",
        rows.unreadable_key(md5): b"",
        rows.unreadable_key(None): b"",
    } | {
        rows.scope_key(table, subject): own
        for table in (rows.CLEAR, rows.DELETE_MARK, rows.CONFIG, rows.MODE)
    }
    for key, owner in keys.items():
        assert rows.owner_of(key) == owner
        assert len(key) <= 511
        if key[:1] in (rows.RESOURCE_NAME, rows.RESOURCE_ID):
            assert rows.association_of(key) == rows.association_key(subject, b"key")
        elif not key.startswith(rows.QUARANTINE):
            assert rows.owner_of(rows.quarantine_key(key)) == owner
            assert len(rows.quarantine_key(key)) <= 511 or key[:1] == rows.REFERRER


@given(texts.map(lambda text: "." + text.replace(":", "")), texts)
def test_a_mode_row_tells_its_mode_and_scope(context: str, name: str) -> None:
    subject = Subject(context, name)
    key, value = rows.scope_key(rows.MODE, subject), rows.mode_row(subject, "READONLY_OVERRIDE")
    assert rows.mode_of(value) == "READONLY_OVERRIDE"
    assert rows.scope_of(key, value) == subject


flags = st.booleans()
pieces = st.binary(max_size=9)


@given(
    st.builds(
        VersionRow, st.integers(0, 2**31 - 1), flags, flags, st.integers(0, 2**63 - 1),
        st.integers(-1, 2**62), st.binary(min_size=16, max_size=16),
        pieces, pieces, pieces, pieces, pieces, pieces, flags,
    )
)  # fmt: skip
def test_a_version_row_is_packed_and_unpacked(row: VersionRow) -> None:
    packed = row.pack()
    assert VersionRow.unpack(packed) == row
    assert (rows.is_deleted(packed), rows.is_own_deleted(packed)) == (row.deleted, row.own_deleted)
    assert packed[rows.BODY :] == b"".join(row[6:12]) + row.tail
    for deleted in (True, False):
        assert rows.with_deleted(packed, deleted) == row._replace(deleted=deleted).pack()
