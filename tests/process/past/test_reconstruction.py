"""The past told from a real log, with and without snapshots, before and after compaction."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from registry.domain.errors import PAST_LOST, RegistryError
from registry.domain.fold.fold import owner
from registry.domain.history.moment import Moment, Row, rows_of
from registry.domain.log_format.records import Entry, Record
from registry.log.embedded.log import EmbeddedLog
from registry.node.past.reconstruction import PastReader, SnapshotRows
from registry.node.past.thread import (
    WAITING_MAX,
    WAITING_OF_ONE_MAX,
    HistoryFiller,
    PastThread,
    Reconstructed,
)
from registry.node.replication.follower import Follower
from registry.store.lmdb import Store
from registry.store.open import open_store
from snapshots.catalogue import catalogue
from snapshots.catalogue.catalogue import ready_fields
from snapshots.format.location import Location
from snapshots.format.writer import publish, write_run
from tests.process.node.test_follower import history as said
from tests.support.running import until
from tests.support.sample_snapshots import about
from tests.unit.random_logs import fold

MAP = 256 << 20
FIRST_MS = 1_000
SUBJECTS = 12


def now_ms() -> int:
    return 1 << 40


def no_hurry() -> None:
    pass


class Past:
    """A log, the store that follows it, and the snapshots of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.at = FIRST_MS
        self.log = EmbeddedLog(folder / "log", map_bytes=MAP, clock=lambda: self.at)
        self.store: Store
        self.store, _ = open_store(folder / "store", self.log.identity, 0, map_bytes=MAP)
        self.location = Location.parse(folder / "snapshots")
        self.snapshots: list[catalogue.Entry] = []
        self.records: list[Record] = []
        self.follower = Follower(self.log, self.store, history=True)

    def append(self, entries: list[Entry], *, follow: bool = True) -> None:
        """Append records one by one, each one ms after the one before."""
        for entry in entries:
            self.log.append([entry])
            self.records.append(Record(self.log.end() - 1, self.at, *entry))
            self.at += 1
        while follow and self.store.applied < self.log.end():
            self.follower.step()

    def snapshot(self) -> None:
        offset = self.log.end()
        header = about(offset, log=self.log.identity, lineage=self.store.lineage)
        rows = sorted(fold(self.records).rows())
        manifest = publish(self.location, header, write_run(self.location, header.id, [rows]))
        self.snapshots.append(
            catalogue.Entry(
                id=manifest.id,
                state="ready",
                log=self.log.identity,
                offset=offset,
                uri=self.location.uri,
                requested_ms=0,
                updated_ms=0,
                **ready_fields(manifest),
            )
        )

    def compact(self, retention_ms: int = 1 << 60) -> None:
        while self.log.compact(1 << 50, 0, retention_ms, applied=self.store.applied):
            pass

    def past_reader(self, kind: type[PastReader] = PastReader) -> PastReader:
        return kind(self.log, self.store, SnapshotRows(self.log, lambda: self.snapshots), now_ms)

    def owners(self) -> list[bytes]:
        return sorted({owner(each.key) for each in self.records} - {b""})

    def expected(self, offset: int, packed: bytes) -> list[Row]:
        return sorted(rows_of(fold(self.records[: offset + 1]), packed))

    def refill(self) -> None:
        """Build the store again from what the log still has."""
        self.store.close()
        self.store, _ = open_store(
            self.folder / "store", self.log.identity, self.log.end(), map_bytes=MAP,
            stale=lambda _: "on purpose",
        )  # fmt: skip
        self.follower = Follower(self.log, self.store)
        while self.store.applied < self.log.end():
            self.follower.step()
        filler = HistoryFiller(self.log, self.store)
        while not filler.step():
            pass
        self.follower = Follower(self.log, self.store, history=True)

    def close(self) -> None:
        self.follower.close()
        self.store.close()
        self.log.close()


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    made = Past(tmp_path)
    yield made
    made.close()


def examined(past: Past, chance: random.Random) -> tuple[int, list[RegistryError]]:
    """Tell the past at random offsets; return how often it was told, and why it was not otherwise."""
    past_reader, told, lost = past.past_reader(), 0, []
    for _ in range(60):
        offset, packed = chance.randrange(past.log.end()), chance.choice(past.owners())
        try:
            found = past_reader.reconstruct(Moment(offset), [packed], no_hurry)
        except RegistryError as error:
            if error.code != PAST_LOST.code:
                raise
            lost.append(error)
            # What is said of later offsets is true.
            oldest = int(error.message.rpartition("offset: ")[2])
            assert offset < oldest < past.log.end()
            found = past_reader.reconstruct(Moment(oldest), [packed], no_hurry)
            assert sorted(found.rows[packed]) == past.expected(oldest, packed)
        else:
            assert found.applied == offset + 1
            assert sorted(found.rows[packed]) == past.expected(offset, packed)
            told += 1
    return told, lost


def test_a_whole_log_reconstructs_everything(past: Past) -> None:
    past.append(said(300, SUBJECTS))
    assert examined(past, random.Random(1)) == (60, [])


def test_what_compaction_removed_is_lost_except_after_a_snapshot(past: Past) -> None:
    past.append(said(200, SUBJECTS))
    past.snapshot()
    past.append(said(60, SUBJECTS))
    past.compact()
    past.append(said(40, SUBJECTS))
    told, lost = examined(past, random.Random(3))
    assert told > 10
    assert lost
    assert "compaction has removed the record at" in lost[0].message


def test_what_was_compacted_before_the_store_was_built_is_lost_up_to_the_next_snapshot(past: Past) -> None:
    past.append(said(200, SUBJECTS))
    past.compact(retention_ms=0)
    past.append(said(20, SUBJECTS))
    past.refill()
    past.append(said(20, SUBJECTS))
    past.snapshot()
    past.append(said(40, SUBJECTS))
    told, lost = examined(past, random.Random(4))
    assert told
    assert any("before this server saw them" in each.message for each in lost)


@pytest.mark.parametrize("seed", range(5))
def test_random_pasts_are_reconstructed_or_known_to_be_lost(past: Past, seed: int) -> None:
    chance = random.Random(seed)
    told = 0
    for _ in range(4):
        past.append(said(chance.randrange(20, 80), SUBJECTS))
        act: Callable[[], object] = chance.choice((past.snapshot, past.compact, past.refill, past.snapshot))
        act()
        told += examined(past, chance)[0]
    assert told


def test_a_subject_that_has_not_changed_is_reconstructed_whatever_the_log_has_lost(past: Past) -> None:
    past.append(said(100, 1))
    unchanged = past.log.end()
    past.compact()
    past.append(
        [Entry(b'{"keytype":"CONFIG","subject":"other","magic":0}', b'{"compatibilityLevel":"NONE"}')]
    )
    past.refill()
    found = past.past_reader().reconstruct(Moment(unchanged - 1), [b".\0subject-0\0"], no_hurry)
    assert sorted(found.rows[b".\0subject-0\0"]) == past.expected(unchanged, b".\0subject-0\0") != []


def test_a_time_means_the_last_record_that_is_not_newer(past: Past) -> None:
    past.append(said(50, SUBJECTS))
    past_reader, packed = past.past_reader(), b".\0subject-0\0"
    for offset in (0, 20, 49):
        found = past_reader.reconstruct(Moment(time_ms=FIRST_MS + offset), [packed], no_hurry)
        assert found.applied == offset + 1
        assert sorted(found.rows[packed]) == past.expected(offset, packed)
    assert past_reader.reconstruct(Moment(time_ms=FIRST_MS - 1), [packed], no_hurry).applied == 0
    assert past_reader.reconstruct(Moment(time_ms=now_ms()), [packed], no_hurry).applied == 50
    for moment in (Moment(time_ms=now_ms() + 1), Moment(50)):
        with pytest.raises(RegistryError) as refused:
            past_reader.reconstruct(moment, [packed], no_hurry)
        assert refused.value.status == 400


def test_a_damaged_snapshot_is_passed_over(past: Past) -> None:
    past.append(said(100, SUBJECTS))
    past.snapshot()
    past.append(said(100, SUBJECTS))
    past.snapshot()
    past.append(said(50, SUBJECTS))
    newest = past.folder / "snapshots" / past.snapshots[-1].id
    for file in newest.glob("part-*"):
        file.write_bytes(b"damaged")
    assert examined(past, random.Random(5)) == (60, [])


def test_a_snapshot_of_records_that_the_log_lost_is_passed_over(past: Past, tmp_path: Path) -> None:
    past.append(said(100, SUBJECTS))
    other = Past(tmp_path / "other")
    other.at = 0
    other.append(said(97, 3))
    other.snapshot()
    foreign = other.snapshots[0]
    other.close()
    past.snapshots.append(
        catalogue.Entry(
            **{name: getattr(foreign, name) for name in foreign.__struct_fields__ if name != "log"},
            log=past.log.identity,
        )
    )
    past.append(said(50, SUBJECTS))
    assert examined(past, random.Random(6)) == (60, [])


def test_a_log_with_other_records_at_the_same_offsets_reconstructs_nothing(
    past: Past, tmp_path: Path
) -> None:
    past.append(said(50, 1))
    other = Past(tmp_path / "other")
    other.at = past.at
    other.append(said(50, 1))
    past_reader = PastReader(other.log, past.store, SnapshotRows(other.log, list), now_ms)
    with pytest.raises(RegistryError, match="is not the one that was applied") as refused:
        past_reader.reconstruct(Moment(20), [b".\0subject-0\0"], no_hurry)
    assert refused.value.status == 503
    other.close()


def test_while_the_history_is_filled_the_past_is_to_be_asked_for_again(past: Past) -> None:
    past.append(said(100, SUBJECTS))
    past.refill()
    past.follower.close()
    past.append(said(50, SUBJECTS), follow=False)
    past.follower = Follower(past.log, past.store)
    while past.store.applied < past.log.end():
        past.follower.step()
    with pytest.raises(RegistryError) as refused:
        past.past_reader().reconstruct(Moment(120), [b".\0subject-0\0"], no_hurry)
    assert (refused.value.status, refused.value.retry_after_s > 0) == (503, True)


def test_a_thread_answers_one_after_another_and_refuses_too_many(past: Past) -> None:
    past.append(said(50, SUBJECTS))
    told: list[Reconstructed] = []
    thread = PastThread(past.past_reader(), lambda call: call())
    for _ in range(20):
        thread.ask(Moment(10), [b".\0subject-0\0"], told.append)
    refused = [each for each in told if isinstance(each, RegistryError)]
    assert [each.status for each in refused] == [503] * 4
    runs = threading.Thread(target=thread.run)
    runs.start()
    until(lambda: len(told) == 20, 30, "the answers")
    thread.stop()
    runs.join(30)
    assert not runs.is_alive()
    assert all(not isinstance(each, RegistryError) for each in told[4:])


def test_who_asks_a_lot_leaves_the_others_their_turns(past: Past) -> None:
    past.append(said(50, SUBJECTS))
    order: list[str] = []
    refused: list[str] = []

    def ask(asker: str) -> None:
        def answer(told: Reconstructed) -> None:
            (refused if isinstance(told, RegistryError) else order).append(asker)

        thread.ask(Moment(10), [b".\0subject-0\0"], answer, asker)

    thread = PastThread(past.past_reader(), lambda call: call())
    for _ in range(WAITING_OF_ONE_MAX + 100):
        ask("crowd")
    assert refused == ["crowd"] * 100
    others = [f"other{number}" for number in range(WAITING_MAX - 2)]
    for each in others:
        ask(each)
    assert set(refused) == {"crowd"}, "only who has most waiting gives way"
    runs = threading.Thread(target=thread.run)
    runs.start()
    until(lambda: len(order) == WAITING_MAX, 30, "the answers")
    thread.stop()
    runs.join(30)
    assert order == ["crowd", *others, "crowd"]


class Endless(PastReader):
    """Reconstructs until the time is over."""

    def reconstruct(
        self, moment: Moment, owners: Sequence[bytes], check_time: Callable[[], None]
    ) -> NoReturn:
        while True:
            check_time()


def test_a_long_read_gives_way_to_others_after_half_of_its_time(past: Past) -> None:
    told: list[tuple[str, Reconstructed]] = []
    thread = PastThread(past.past_reader(Endless), lambda call: call(), reconstruct_s=0.2)
    for asker in ("long", "other"):
        thread.ask(Moment(10), [], lambda each, asker=asker: told.append((asker, each)), asker)  # type: ignore[misc]
    runs = threading.Thread(target=thread.run)
    runs.start()
    until(lambda: len(told) == 2, 30, "both to be answered")
    thread.stop()
    runs.join(30)
    # Who gave way is told when to come back; nobody waited for the other one.
    assert [(asker, each.retry_after_s) for asker, each in told if isinstance(each, RegistryError)] == [
        ("long", 1), ("other", 0),
    ]  # fmt: skip


def test_who_has_waited_too_long_is_not_answered_any_more(past: Past) -> None:
    past.append(said(5, SUBJECTS))
    told: list[Reconstructed] = []
    thread = PastThread(past.past_reader(), lambda call: call(), reconstruct_s=0.0)
    thread.ask(Moment(2), [b".\0subject-0\0"], told.append)
    runs = threading.Thread(target=thread.run)
    runs.start()
    until(lambda: told, 30, "the answer")
    thread.stop()
    runs.join(30)
    (error,) = told
    assert isinstance(error, RegistryError)
    assert error.status == 503


def test_what_left_no_trace_in_the_log_is_lost_and_not_taken_for_nothing(past: Past) -> None:
    key = b'{"keytype":"CONFIG","subject":"gone","magic":0}'
    other = b'{"keytype":"CONFIG","subject":"other","magic":0}'
    level = b'{"compatibilityLevel":"NONE"}'
    past.append(
        [Entry(key, level), Entry(other, level), Entry(key, None), Entry(other, level), Entry(other, level)]
    )
    past.compact(retention_ms=0)
    past.refill()
    with pytest.raises(RegistryError) as refused:
        past.past_reader().reconstruct(Moment(0), [b".\0gone\0"], no_hurry)
    assert refused.value.code == PAST_LOST.code
