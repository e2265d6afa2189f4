"""Deltas: reading a snapshot with them gives the rows that the changes one after another leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots.format import deltas, parts
from snapshots.format.deltas import changes_between, delta_parts, rows_between
from snapshots.format.manifest import Delta, Manifest, Part
from snapshots.format.parts import BATCH_ROWS, Row, cut, part_of
from tests.support.sample_snapshots import about

Changes = Mapping[bytes, bytes | None]
keys = st.binary(min_size=1, max_size=2).map(lambda each: b"V" + each)
values = st.binary(max_size=3)
rows = st.dictionaries(keys, values, max_size=12)
changes = st.dictionaries(keys, st.none() | values, max_size=8)


class Files:
    """The files of a snapshot with deltas."""

    def __init__(self, rows: Mapping[bytes, bytes], *later: Changes) -> None:
        self._contents: dict[tuple[str, str], bytes] = {}
        full = [part_of(each) for each in cut([sorted(rows.items())] if rows else [])]
        kept = tuple(self._keep("full", *each) for each in full)
        made = tuple(self._delta(f"delta-{number}", changed) for number, changed in enumerate(later))
        self.manifest = Manifest(
            **about()._asdict(), format="", counts={}, digest=0, parts=kept, full="full", deltas=made
        )

    def _delta(self, folder: str, changed: Changes) -> Delta:
        return Delta(folder, tuple(self._keep(folder, *each) for each in delta_parts(changed)))

    def _keep(self, folder: str, part: Part, content: bytes) -> Part:
        self._contents[folder, part.name] = content
        return part

    def read(self, folder: str, part: Part) -> bytes:
        return self._contents[folder, part.name]

    def rows(self, begin: bytes = b"", end: bytes = deltas.END) -> list[Row]:
        return [row for rows in rows_between(self.manifest, self.read, begin, end) for row in rows]


def after(rows: Mapping[bytes, bytes], *later: Changes) -> dict[bytes, bytes]:
    """Return the rows that are left by changes one after another."""
    found: dict[bytes, bytes | None] = {**rows}
    for each in later:
        found |= each
    return {key: value for key, value in found.items() if value is not None}


@pytest.fixture(scope="module", params=[1, 2, BATCH_ROWS], autouse=True)
def batch(request: pytest.FixtureRequest) -> Iterator[None]:
    """Read and merge so many rows at once."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (deltas, parts):
            patch.setattr(module, "BATCH_ROWS", request.param)
        yield


@given(rows, st.lists(changes, max_size=3))
def test_a_snapshot_has_the_rows_that_all_changes_leave(
    rows: Mapping[bytes, bytes], later: list[Changes]
) -> None:
    assert Files(rows, *later).rows() == sorted(after(rows, *later).items())


@given(rows, st.lists(changes, max_size=3), keys, keys)
def test_a_range_of_keys_has_the_same_rows(
    rows: Mapping[bytes, bytes], later: list[Changes], begin: bytes, end: bytes
) -> None:
    wanted = sorted((key, value) for key, value in after(rows, *later).items() if begin <= key < end)
    assert Files(rows, *later).rows(begin, end) == wanted


def test_of_several_deltas_that_change_a_row_the_newest_counts_also_if_it_deletes_it() -> None:
    files = Files({b"Va": b"0", b"Vb": b"0"}, {b"Va": b"1", b"Vb": None}, {b"Va": None, b"Vb": b"2"})
    assert [*changes_between(files.manifest, files.read)] == [(b"Va", None), (b"Vb", b"2")]
    assert files.rows() == [(b"Vb", b"2")]
