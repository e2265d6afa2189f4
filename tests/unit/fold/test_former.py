"""Rows of former releases: completed, they are those that this release folds from the same log."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from registry.domain.fold import former
from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.records import Record
from registry.domain.rows.layout import ASSOCIATION, DELETE_MARK, UNKNOWN_TIME, mark_time, read_mark
from registry.domain.rows.memory_views import DictView, OverlayView
from registry.domain.rows.view import scan
from registry.store.examination import open_rows
from tests.former_stores import stores
from tests.unit.random_logs import fold


def expected(kind: str) -> dict[bytes, object]:
    records = [Record(offset, 1000 + offset, *entry) for offset, entry in enumerate(stores.entries(kind))]
    return comparable(fold(records))


def comparable(view: DictView | OverlayView) -> dict[bytes, object]:
    """Return the rows without the two times that former folds did not keep anywhere."""
    return dict(_without_times(key, value) for key, value in scan(view, b"", b""))


def _without_times(key: bytes, value: bytes) -> tuple[bytes, object]:
    if key.startswith(DELETE_MARK):
        return key, read_mark(value)
    if not key.startswith(ASSOCIATION):
        return key, value
    fields = orjson.loads(value)
    assert fields.pop("updateTs") >= fields["createTs"]
    return key, orjson.dumps(fields)


@pytest.mark.parametrize("kind", stores.KINDS)
@pytest.mark.parametrize("version", stores.FOLDS)
def test_rows_of_a_former_release_are_those_of_this_one_once_what_they_lack_is_added(
    tmp_path: Path, version: int, kind: str
) -> None:
    with open_rows(stores.place(tmp_path, version, kind)) as view:
        changes = dict(former.missing(view, version))
        assert bool(changes) == (kind == "full" and version < 3)
        assert comparable(OverlayView(view, changes)) == expected(kind)


def test_there_is_a_store_of_every_former_version_of_the_fold() -> None:
    """Whoever changes the fold keeps a store of the version before, see ``tests/former_stores/write.py``."""
    assert stores.FOLDS == tuple(range(1, FOLD_VERSION))
    assert all(former.can_read(str(each)) for each in (*stores.FOLDS, FOLD_VERSION))
    assert not any(former.can_read(each) for each in ("0", str(FOLD_VERSION + 1), "", "x", "-1"))


@pytest.mark.parametrize("version", stores.FOLDS)
def test_when_a_mark_was_set_is_unknown_in_rows_of_a_former_release(tmp_path: Path, version: int) -> None:
    with open_rows(stores.place(tmp_path, version, "full")) as view:
        times = {mark_time(value) for _, value in scan(view, DELETE_MARK)}
    assert times == {UNKNOWN_TIME}
