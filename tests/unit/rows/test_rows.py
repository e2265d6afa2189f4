"""Keys of rows: order, limits and owners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.model import Subject
from registry.domain.rows import layout, version_row
from registry.domain.rows.layout import number, part, unnumber, unpart
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import scan, scan_back
from tests.unit.row_keys import guid_key, id_key, referrer_key

texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text("\0\1\2a\U0010ffff", max_size=80)
integers = st.integers(-(2**31), 2**31 - 1)


@given(texts)
def test_a_part_gives_its_text_again_unless_it_was_cut(text: str) -> None:
    packed = part(text)
    assert packed.endswith(b"\0")
    assert b"\0" not in packed[:-1]
    assert len(packed) <= layout.PART_MAX + 1
    cut = unpart(packed[:-1]) is None
    assert cut or unpart(packed[:-1]) == text
    assert not cut or len(text.encode().replace(b"\0", b"..").replace(b"\1", b"..")) > layout.PART_MAX


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
    assert part(long).startswith(layout.part_prefix("x" * 150))
    assert part("x" * layout.PART_MAX) == b"x" * layout.PART_MAX + b"\0"
    assert unpart(part("\1" * 61)[:-1]) is None


@given(integers, integers)
def test_numbers_sort_like_integers(one: int, other: int) -> None:
    assert unnumber(number(one)) == one
    assert (number(one) < number(other)) == (one < other)


@pytest.mark.parametrize(
    "prefix", [b"V", b"Va\xff", b"V\xff\xff", layout.id_prefix(".", 255), layout.id_prefix(".", 2**31 - 1)]
)
def test_after_a_prefix_comes_what_does_not_begin_with_it(prefix: bytes) -> None:
    assert prefix + b"\xff" * 9 < layout.after(prefix)
    view = DictView([(prefix, b""), (prefix + b"\xff\xff", b""), (layout.after(prefix), b"")])
    assert [key for key, _ in scan_back(view, prefix)] == [prefix + b"\xff\xff", prefix]
    assert [key for key, _ in scan(view, prefix)] == [prefix, prefix + b"\xff\xff"]


@given(
    texts.map(lambda text: "." + text.replace(":", "")), texts, integers, st.binary(min_size=16, max_size=16)
)
def test_every_key_names_its_owner_and_fits(context: str, name: str, version: int, md5: bytes) -> None:
    subject = Subject(context, name)
    own, contexts = part(context) + part(name), part(context) + part("")
    other = Subject("." + "\0" * 70, "\1" * 70)
    keys = {
        layout.version_key(subject, version): own,
        id_key(subject, version, version, 2**63 - 1): own,
        guid_key(subject, version, md5): own,
        referrer_key(other, -1, subject, version): own,
        layout.association_key(subject, b"key"): own,
        layout.resource_name_prefix("\0" * 70, name) + layout.association_key(subject, b"key")[1:]: own,
        layout.resource_id_prefix("\1" * 70) + layout.association_key(subject, b"key")[1:]: own,
        layout.context_key(layout.CONTEXT, context): contexts,
        layout.context_key(layout.RESERVATION, context): contexts,
        layout.cluster_key("barrier"): b"",
        layout.webhook_key(layout.WEBHOOK, name): b"",
        layout.webhook_key(layout.POSITION, name): b"",
        layout.source_key(name, 7): b"",
        layout.use_prefix(context, version) + layout.source_key(name, 7)[1:]: b"",
        layout.use_prefix(context, md5) + layout.source_key(name, 7)[1:]: b"",
        layout.unreadable_key(md5): b"",
        layout.unreadable_key(None): b"",
    } | {
        layout.scope_key(table, subject): own
        for table in (layout.CLEAR, layout.DELETE_MARK, layout.CONFIG, layout.MODE)
    }
    for key, owner in keys.items():
        assert layout.owner_of(key) == owner
        assert len(key) <= 511
        if key[:1] in (layout.RESOURCE_NAME, layout.RESOURCE_ID):
            assert layout.association_of(key) == layout.association_key(subject, b"key")
        elif key.startswith(layout.USE):
            assert layout.source_of(key) == layout.source_key(name, 7)
        elif not key.startswith(layout.QUARANTINE):
            assert layout.owner_of(layout.quarantine_key(key)) == owner
            assert len(layout.quarantine_key(key)) <= 511 or key[:1] == layout.REFERRER


@given(texts.map(lambda text: "." + text.replace(":", "")), texts)
def test_a_mode_row_reports_its_mode_and_scope(context: str, name: str) -> None:
    subject = Subject(context, name)
    key, value = layout.scope_key(layout.MODE, subject), layout.mode_row(subject, "READONLY_OVERRIDE")
    assert layout.mode_of(value) == "READONLY_OVERRIDE"
    assert layout.scope_of(key, value) == subject


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
    assert (version_row.is_deleted(packed), version_row.is_own_deleted(packed)) == (
        row.deleted,
        row.own_deleted,
    )
    assert packed[version_row.BODY :] == b"".join(row[6:12]) + row.tail
    for deleted in (True, False):
        assert version_row.with_deleted(packed, deleted) == row._replace(deleted=deleted).pack()
