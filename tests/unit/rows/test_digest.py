"""The digest of rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry.domain.rows import digest

tables = st.dictionaries(st.binary(max_size=4), st.binary(max_size=4))


def test_a_row_is_hashed_with_the_length_of_its_key() -> None:
    said = "ae10950b668a85fa62f3cd2de023a7f6"  # XXH3 of 128 bits, of 2:abc
    assert digest.row_hash(b"ab", b"c") == int(said, 16)
    assert digest.row_hash(b"a", b"bc") != digest.row_hash(b"ab", b"c")
    assert digest.text(digest.EMPTY) == "0" * 32
    assert digest.text(digest.of_rows([(b"ab", b"c")])) == said


@given(tables, tables, st.randoms())
def test_it_depends_on_the_rows_alone(
    before: dict[bytes, bytes], after: dict[bytes, bytes], chance: object
) -> None:
    keys = sorted({*before, *after})
    chance.shuffle(keys)  # type: ignore[attr-defined]
    running = digest.of_rows(before.items())
    for key in keys:
        running = digest.digest_after_change(running, key, before.get(key), after.get(key))
    assert running == digest.of_rows(sorted(after.items()))
    assert (running == digest.of_rows(before.items())) == (before == after)


@given(tables)
def test_parts_add_up(table: dict[bytes, bytes]) -> None:
    """The digest of a table is the sum of the digests of any parts of it."""
    rows = list(table.items())
    parts = [digest.of_rows(rows[:2]), digest.of_rows(rows[2:])]
    assert digest.combine(parts) == digest.of_rows(rows) == digest.combine(reversed(parts))
