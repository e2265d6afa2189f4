"""Reseeding a log from a store: reasons to refuse it, and resuming an interrupted one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext
from itertools import islice
from pathlib import Path

import pytest

from registry.domain import reseed
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry, Record
from registry.domain.model import Subject
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import Change
from registry.log.embedded.log import EmbeddedLog
from registry.store.layout import DamagedStore, StoreError, StoreMissing
from registry.store.offline import OfflineStore
from registry.store.open import open_store
from snapshots.backup import reseed_log
from snapshots.backup.reseed_log import ForeignRecords, ReseedPlan
from tests.unit.random_logs import fold

MAP = 64 << 20
COUNT = 50


def quiet(done: int) -> None:
    """Ignore progress."""


def version(number: int) -> Entry:
    subject = Subject(".", f"s{number:03}")
    return Entry(records.schema_key(subject, 1), values.schema_value(subject, 1, number, f'"{number}"'))


OLD = fold([Record(index, 1, *version(COUNT - index)) for index in range(COUNT)])


class Rows:
    """A store to fold into, in memory."""

    def __init__(self) -> None:
        self.rows = DictView()

    def view(self) -> nullcontext[DictView]:
        return nullcontext(self.rows)

    def commit(self, changes: dict[bytes, bytes | None], applied: int) -> None:
        self.rows.commit(changes.items())


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with closing(EmbeddedLog(tmp_path / "log", map_bytes=MAP)) as opened:
        yield opened


@pytest.fixture
def wanted() -> ReseedPlan:
    return reseed_log.plan(OLD, "old", COUNT)


def run(log: EmbeddedLog, wanted: ReseedPlan) -> int:
    """Run a whole reseed; return how many records the log held already."""
    remaining = reseed_log.every(OLD, wanted.marker)
    found = reseed_log.skip_held(log, remaining, quiet)
    reseed_log.claim(log, found)
    reseed_log.publish(log, remaining, found, quiet)
    return found.records


def test_an_empty_log_gets_all_and_gives_the_same_rows(log: EmbeddedLog, wanted: ReseedPlan) -> None:
    assert wanted.records == COUNT
    assert run(log, wanted) == 0
    rows = Rows()
    reseed_log.fold_back(log, rows, quiet)
    assert list(reseed.differences(OLD, rows.rows)) == []
    assert log.read(COUNT, 1, 1 << 20).records[0].key == records.RESEED_KEY


def test_an_interrupted_one_is_gone_on_with(
    log: EmbeddedLog, wanted: ReseedPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reseed_log, "BATCH_RECORDS", 7)
    log.append([Entry(records.NOOP_KEY, None), *islice(reseed.entries(OLD), 20)])
    log.append([Entry(records.BARRIER_KEY, b'{"producer":1,"epoch":0}')])
    assert run(log, wanted) == 20
    assert run(log, wanted) == COUNT + 1
    assert log.end() == COUNT + 3


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        (version(1), "s001"),
        (Entry(b"?", b""), "?"),
        (Entry(records.reservation_key("."), values.reservation_value(9)), "ids"),
        (reseed.marker("another", 1, 1), "reseed"),
    ],
)
def test_a_log_with_anything_else_is_refused(
    log: EmbeddedLog, wanted: ReseedPlan, entry: Entry, key: str
) -> None:
    log.append([*islice(reseed.entries(OLD), 3), entry])
    found = f"it has another record at offset 3 after 3 records of such a reseed: .*{key.replace('?', '[?]')}"
    with pytest.raises(ForeignRecords, match=f"^{found}"):
        run(log, wanted)
    assert log.end() == 4


def test_what_comes_in_between_stops_it(log: EmbeddedLog, wanted: ReseedPlan) -> None:
    found = reseed_log.skip_held(log, reseed_log.every(OLD, wanted.marker), quiet)
    log.append([Entry(records.NOOP_KEY, None)])
    with pytest.raises(ForeignRecords, match="1 other records were added"):
        reseed_log.claim(log, found)


def made(path: Path, changes: list[Change]) -> Path:
    store, _ = open_store(path, "old", 10, map_bytes=MAP)
    store.commit(changes, 10)
    store.close()
    return path


def test_a_kept_store_is_read_as_it_is(tmp_path: Path) -> None:
    path = made(tmp_path / "store", list(OLD.rows()))
    before = {file: file.read_bytes() for file in path.rglob("data.mdb")}
    with OfflineStore(path) as kept:
        kept.check()
        assert (kept.log, kept.state.applied) == ("old", 10)
        with kept.view() as view:
            assert list(reseed.differences(OLD, view)) == []
        with pytest.raises(StoreError, match="is open for writing by process"):
            OfflineStore(path)
    assert {file: file.read_bytes() for file in path.rglob("data.mdb")} == before
    open_store(path, "old", 10, map_bytes=MAP)[0].close()


def test_a_store_that_is_not_there_or_in_use_or_damaged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        OfflineStore(tmp_path / "nowhere")
    path = made(tmp_path / "store", [(b"Fsome", b"row")])
    store, _ = open_store(path, "old", 10, map_bytes=MAP)
    with pytest.raises(StoreError, match="is open for writing by process"):
        OfflineStore(path)
    store.close()
    file = next(path.rglob("data.mdb"))
    file.write_bytes(file.read_bytes().replace(b"Fsomerow", b"Fsomewor"))
    with pytest.raises(DamagedStore, match="do not match the stored digest"), OfflineStore(path) as kept:
        kept.check()
